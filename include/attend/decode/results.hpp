#pragma once

#include <concepts>
#include <utility>
#include <vector>

namespace attend::decode {

/// What a search gives: an item for each sentence, or a list of them. A vector in all but one thing: what is taken out of a
/// temporary comes by value, so that nothing refers to what is gone: `for (const auto& h : sample(model, state, 1).front())`.
template <class Item>
class Results : public std::vector<Item> {
 public:
  using Vector = std::vector<Item>;
  using typename Vector::size_type;
  using Vector::Vector;
  Results() = default;
  Results(Vector list) : Vector(std::move(list)) {}  // NOLINT: one is the other

  [[nodiscard]] Item& operator[](size_type i) & { return Vector::operator[](i); }
  [[nodiscard]] const Item& operator[](size_type i) const& { return Vector::operator[](i); }
  [[nodiscard]] Item operator[](size_type i) && { return std::move(Vector::operator[](i)); }
  /// Throws std::out_of_range.
  [[nodiscard]] Item& at(size_type i) & { return Vector::at(i); }
  [[nodiscard]] const Item& at(size_type i) const& { return Vector::at(i); }
  [[nodiscard]] Item at(size_type i) && { return std::move(Vector::at(i)); }
  [[nodiscard]] Item& front() & { return Vector::front(); }
  [[nodiscard]] const Item& front() const& { return Vector::front(); }
  [[nodiscard]] Item front() && { return std::move(Vector::front()); }
  [[nodiscard]] Item& back() & { return Vector::back(); }
  [[nodiscard]] const Item& back() const& { return Vector::back(); }
  [[nodiscard]] Item back() && { return std::move(Vector::back()); }

  /// A list of lists as plain vectors.
  template <class Inner>
  requires std::same_as<Item, Results<Inner>>
  operator std::vector<std::vector<Inner>>() const& {  // NOLINT: one is the other
    return {this->begin(), this->end()};
  }
  template <class Inner>
  requires std::same_as<Item, Results<Inner>>
  operator std::vector<std::vector<Inner>>() && {  // NOLINT: one is the other
    std::vector<std::vector<Inner>> lists;
    lists.reserve(this->size());
    for (auto& list : *this) lists.push_back(std::move(list));
    return lists;
  }
};

}  // namespace attend::decode
