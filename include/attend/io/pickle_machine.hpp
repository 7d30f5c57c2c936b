#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/core/error.hpp"
#include "attend/core/printable.hpp"
#include "attend/core/shape.hpp"
#include "attend/core/standard.hpp"
#include "attend/io/pickle.hpp"
#include "attend/io/pickled_tensor.hpp"

// The machine that pickles are programs for: part of pickle.hpp, and of compiled.cpp where a program has that. Source: the
// comments of Python's pickletools.py, and torch/_utils.py.

namespace attend::detail {

/// Runs a pickle. Objects are numbered in the order in which they come to be; nothing recurses, so that no nesting is too deep.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, const std::string& where) : all_(bytes), rest_(bytes), where_(where) {}

  std::vector<io::PickledTensor> run() {
    while (!step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("ends with " + std::to_string(stack_.size()) + " objects, expected one");
    const Object& top = objects_[stack_.back()];
    if (top.kind != Kind::dict) fail("holds " + describe(top) + ", expected a dict of tensors");
    std::vector<io::PickledTensor> tensors;
    for (std::size_t i = 0; i + 1 < items_[top.index].size(); i += 2) {
      const Object &key = objects_[items_[top.index][i]], &value = objects_[items_[top.index][i + 1]];
      if (key.kind != Kind::text) fail("has " + describe(key) + " for the name of a tensor, expected a string");
      if (value.kind != Kind::tensor) fail("has " + describe(value) + " for '" + printable(key.text) + "', expected a tensor");
      tensors.push_back(tensors_[value.index]);
      tensors.back().name = key.text;
    }
    return tensors;
  }

 private:
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, tuple, dict, function, storage, tensor };
  enum Function : std::uint32_t { ordered_dict, rebuild_tensor, rebuild_parameter, first_storage };
  using Id = std::uint32_t;

  struct Object {
    Kind kind = Kind::none;
    std::uint32_t index = 0;   // into items_ of a list, tuple or dict, into storages_ and tensors_; which function
    std::int64_t integer = 0;  // also of a boolean
    std::string_view text = {};
  };
  struct Storage {
    std::string_view key;
    io::DType dtype;
    std::uint64_t size;
  };

  static constexpr std::size_t most_objects = std::size_t{1} << 21;  // 24 for each tensor: 85,000 tensors in one file

  [[noreturn]] void fail(const std::string& what) const { throw FormatError(where_, "the pickle ", what); }
  [[noreturn]] void fail_here(const std::string& what) const {
    fail(what + " at byte " + std::to_string(all_.size() - rest_.size()));
  }

  static std::string describe(const Object& object) {
    constexpr std::array<const char*, 11> names{"None",    "a truth value", "a whole number", "a number",  "a string", "a list",
                                                "a tuple", "a dict",        "a function",     "a storage", "a tensor"};
    return names[static_cast<std::size_t>(object.kind)];
  }

  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail("is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  template <class N>
  N number() {
    N value;
    std::memcpy(&value, take(sizeof(N)).data(), sizeof(N));
    return value;
  }
  std::string_view line() {
    const std::size_t end = rest_.find('\n');
    if (end == rest_.npos) fail("is cut off");
    const std::string_view taken = take(end);
    take(1);
    return taken;
  }

  void push(const Object& object) {
    if (objects_.size() >= most_objects) fail("has more than " + std::to_string(most_objects) + " objects");
    stack_.push_back(static_cast<Id>(objects_.size()));
    objects_.push_back(object);
  }
  void push(Kind kind, std::vector<Id> items) {
    push({.kind = kind, .index = static_cast<std::uint32_t>(items_.size())});
    items_.push_back(std::move(items));
  }
  /// The last object on the stack, but none from before the last mark.
  Id pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) fail_here("takes an object that is not there");
    const Id last = stack_.back();
    stack_.pop_back();
    return last;
  }
  Id top() {
    const Id last = pop();
    stack_.push_back(last);
    return last;
  }
  /// The last `count` objects.
  std::vector<Id> pop_many(std::size_t count) {
    std::vector<Id> items(count);
    for (std::size_t i = count; i > 0; --i) items[i - 1] = pop();
    return items;
  }
  /// All objects since the last mark, which goes.
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) fail_here("takes a mark that is not there");
    std::vector<Id> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  const Object& expect(Id id, Kind kind, const char* what) {
    const Object& object = objects_[id];
    if (object.kind != kind) fail_here("has " + describe(object) + " for " + what);
    return object;
  }

  void add_to(Kind kind, const std::vector<Id>& more) {
    const Object& object = expect(top(), kind, kind == Kind::dict ? "a dict" : "a list");
    if (kind == Kind::dict && more.size() % 2 != 0) fail_here("has a key without a value");
    auto& items = items_[object.index];
    items.insert(items.end(), more.begin(), more.end());
  }
  void remember(std::uint32_t place) { memo_[place] = top(); }
  void recall(std::uint32_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) fail_here("goes back to an object that it has not had,");
    stack_.push_back(found->second);
  }

  /// One instruction; true for the last.
  bool step() {
    const auto code = static_cast<unsigned char>(take(1).front());
    switch (code) {
      case 0x80:  // PROTO
        if (const auto protocol = number<std::uint8_t>(); protocol != 2)
          fail("is of protocol " + std::to_string(protocol) + ", expected 2, as torch.save writes it by default");
        return false;
      case '.':  // STOP
        return true;
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return false;
      case 'N':  // NONE
        push({.kind = Kind::none});
        return false;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push({.kind = Kind::boolean, .integer = code == 0x88});
        return false;
      case 'K':  // BININT1
        push({.kind = Kind::integer, .integer = number<std::uint8_t>()});
        return false;
      case 'M':  // BININT2
        push({.kind = Kind::integer, .integer = number<std::uint16_t>()});
        return false;
      case 'J':  // BININT
        push({.kind = Kind::integer, .integer = number<std::int32_t>()});
        return false;
      case 0x8a:  // LONG1
        push({.kind = Kind::integer, .integer = long_number()});
        return false;
      case 'G':  // BINFLOAT
        take(8);
        push({.kind = Kind::real});
        return false;
      case 'X':  // BINUNICODE
        push({.kind = Kind::text, .text = take(number<std::uint32_t>())});
        return false;
      case '}':  // EMPTY_DICT
        push(Kind::dict, {});
        return false;
      case ']':  // EMPTY_LIST
        push(Kind::list, {});
        return false;
      case ')':  // EMPTY_TUPLE
        push(Kind::tuple, {});
        return false;
      case 't':  // TUPLE
        push(Kind::tuple, pop_to_mark());
        return false;
      case 0x85:  // TUPLE1, 2, 3
      case 0x86:
      case 0x87:
        push(Kind::tuple, pop_many(code - 0x84u));
        return false;
      case 's':  // SETITEM
        add_to(Kind::dict, pop_many(2));
        return false;
      case 'u':  // SETITEMS
        add_to(Kind::dict, pop_to_mark());
        return false;
      case 'a':  // APPEND
        add_to(Kind::list, pop_many(1));
        return false;
      case 'e':  // APPENDS
        add_to(Kind::list, pop_to_mark());
        return false;
      case 'q':  // BINPUT
        remember(number<std::uint8_t>());
        return false;
      case 'r':  // LONG_BINPUT
        remember(number<std::uint32_t>());
        return false;
      case 'h':  // BINGET
        recall(number<std::uint8_t>());
        return false;
      case 'j':  // LONG_BINGET
        recall(number<std::uint32_t>());
        return false;
      case 'c':  // GLOBAL
        find_function();
        return false;
      case 'Q':  // BINPERSID
        make_storage();
        return false;
      case 'R':  // REDUCE
        call();
        return false;
      case 'b':  // BUILD: attributes of an OrderedDict, such as the versions of modules
        expect(pop(), Kind::dict, "an object's attributes");
        expect(top(), Kind::dict, "an object that has attributes");
        return false;
      default:
        fail_here("has the instruction 0x" + hexadecimal_byte(code) + ", which no dict of tensors needs,");
    }
  }

  static std::string hexadecimal_byte(unsigned char byte) {
    constexpr const char* digits = "0123456789ABCDEF";
    return {digits[byte >> 4], digits[byte & 15]};
  }

  std::int64_t long_number() {
    const std::string_view bytes = take(number<std::uint8_t>());
    if (bytes.size() > 8) fail_here("has a number of " + std::to_string(bytes.size()) + " bytes, expected 8 at most,");
    std::uint64_t value = !bytes.empty() && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
    return static_cast<std::int64_t>(value);
  }

  void find_function() {
    const std::string_view module_name = line(), name = line();
    std::optional<std::uint32_t> function;
    if (module_name == "collections" && name == "OrderedDict") function = ordered_dict;
    if (module_name == "torch._utils" && name == "_rebuild_tensor_v2") function = rebuild_tensor;
    if (module_name == "torch._utils" && name == "_rebuild_parameter") function = rebuild_parameter;
    for (std::size_t i = 0; i < torch_storages.size() && module_name == "torch"; ++i)
      if (name == torch_storages[i].first) function = first_storage + static_cast<std::uint32_t>(i);
    if (!function)
      fail("needs " + printable(module_name) + "." + printable(name) +
           ", and only dicts of plain tensors and parameters are read");
    push({.kind = Kind::function, .index = *function});
  }

  /// ('storage', its class, its key, its device, how many numbers)
  void make_storage() {
    const std::vector<Id> parts = items_[expect(pop(), Kind::tuple, "a storage").index];
    if (parts.size() != 5) fail_here("has a storage of " + std::to_string(parts.size()) + " parts, expected 5,");
    if (expect(parts[0], Kind::text, "a storage's first part").text != "storage")
      fail_here("has a persistent object that is no storage");
    const auto function = expect(parts[1], Kind::function, "a storage's class").index;
    if (function < first_storage) fail_here("has a function for a storage's class");
    const auto key = expect(parts[2], Kind::text, "a storage's key").text;
    expect(parts[3], Kind::text, "a storage's device");
    const auto size = expect(parts[4], Kind::integer, "a storage's size").integer;
    if (size < 0) fail_here("has a storage of a negative size");
    push({.kind = Kind::storage, .index = static_cast<std::uint32_t>(storages_.size())});
    storages_.push_back({key, torch_storages[function - first_storage].second, static_cast<std::uint64_t>(size)});
  }

  void call() {
    const std::vector<Id> arguments = items_[expect(pop(), Kind::tuple, "the arguments of a call").index];
    const auto function = expect(pop(), Kind::function, "what is called").index;
    const std::size_t count = arguments.size();
    if (function == ordered_dict && count == 0) {
      push(Kind::dict, {});
    } else if (function == rebuild_tensor && (count == 6 || count == 7)) {
      make_tensor(arguments);
    } else if (function == rebuild_parameter && count == 3) {
      expect(arguments[0], Kind::tensor, "a parameter's tensor");
      check_nothing(arguments[2], "hooks");
      stack_.push_back(arguments[0]);
    } else {
      fail_here("calls a function with " + std::to_string(count) + " arguments that it does not take");
    }
  }

  void check_nothing(Id id, const char* what) {
    const Object& object = objects_[id];
    if (object.kind != Kind::none && !(object.kind == Kind::dict && items_[object.index].empty()))
      fail_here(std::string("has a tensor with ") + what + ", which cannot be read");
  }

  std::vector<std::uint64_t> numbers(Id id, const char* what) {
    std::vector<std::uint64_t> list;
    const auto& items = items_[expect(id, Kind::tuple, what).index];
    if (count_of(items) > Shape::max_rank)
      fail_here("has " + std::to_string(items.size()) + " numbers in " + what + ", expected at most " +
                std::to_string(Shape::max_rank));
    for (const Id item : items) {
      const std::int64_t value = expect(item, Kind::integer, what).integer;
      if (value < 0) fail_here(std::string("has a negative number in ") + what);
      list.push_back(static_cast<std::uint64_t>(value));
    }
    return list;
  }

  /// storage, offset, sizes, strides, whether a gradient is needed, hooks, and perhaps more about the tensor
  void make_tensor(const std::vector<Id>& arguments) {
    const Storage& storage = storages_[expect(arguments[0], Kind::storage, "a tensor's storage").index];
    io::PickledTensor tensor;
    tensor.storage = storage.key, tensor.dtype = storage.dtype, tensor.storage_size = storage.size;
    const std::int64_t offset = expect(arguments[1], Kind::integer, "a tensor's offset").integer;
    const auto sizes = numbers(arguments[2], "a tensor's sizes");
    tensor.strides = numbers(arguments[3], "a tensor's strides");
    for (std::size_t i = 5; i < arguments.size(); ++i) check_nothing(arguments[i], i == 5 ? "hooks" : "marks of its own");
    if (sizes.size() != tensor.strides.size())
      fail_here("has a tensor of " + std::to_string(sizes.size()) + " sizes and " + std::to_string(tensor.strides.size()) +
                " strides");
    try {
      tensor.shape = Shape(std::vector<index_t>(sizes.begin(), sizes.end()));
    } catch (const ShapeError& error) {
      fail_here(std::string("has a tensor that cannot be: ") + error.what());
    }
    if (offset < 0 || !lies_within(tensor, offset))
      fail_here("has a tensor of shape " + tensor.shape.text() + " that does not lie within its storage of " +
                std::to_string(storage.size) + " numbers,");
    tensor.offset = static_cast<std::uint64_t>(offset);
    push({.kind = Kind::tensor, .index = static_cast<std::uint32_t>(tensors_.size())});
    tensors_.push_back(std::move(tensor));
  }

  std::string_view all_, rest_;
  const std::string& where_;
  std::vector<Object> objects_;
  std::vector<std::vector<Id>> items_;
  std::vector<Storage> storages_;
  std::vector<io::PickledTensor> tensors_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // how high the stack was
  std::unordered_map<std::uint32_t, Id> memo_;
};

}  // namespace attend::detail

namespace attend::io {

ATTEND_INLINE std::vector<PickledTensor> parse_pickle(std::string_view bytes, const std::string& where) {
  return detail::PickleMachine(bytes, where).run();
}

}  // namespace attend::io
