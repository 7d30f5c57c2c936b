#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "attend/core/options.hpp"
#include "attend/kernels/places.hpp"
#include "attend/nn/init.hpp"
#include "attend/nn/relative_bias.hpp"
#include "attend/ops/arithmetic.hpp"
#include "attend/ops/attention.hpp"
#include "attend/ops/positions.hpp"
#include "attend/ops/rearrange.hpp"
#include "attend/ops/rotary.hpp"

namespace attend::nn {

/// How a stack tells where a token stands.
enum class PositionKind {
  sinusoidal,         ///< fixed sinusoids, sine and cosine side by side, as in the paper
  sinusoidal_halves,  ///< fixed sinusoids, all sines before all cosines, as in Marian
  learned,
  rotary,              ///< queries and keys of self-attentions are turned, halves of a head by one another, as in Llama
  rotary_interleaved,  ///< the same with columns side by side, as in the paper
  relative,            ///< self-attentions add a number for each bucket of distances, the same in all layers, as T5
  relative_each,       ///< the same with numbers of its own for each layer, as umT5
  none
};
/// Whether it is added to the embeddings.
constexpr bool is_added(PositionKind kind) {
  using enum PositionKind;
  return kind == sinusoidal || kind == sinusoidal_halves || kind == learned;
}
/// Whether queries and keys are turned by their positions.
constexpr bool is_rotary(PositionKind kind) { return kind == PositionKind::rotary || kind == PositionKind::rotary_interleaved; }
/// Whether scores have a bias by distance.
constexpr bool is_relative(PositionKind kind) { return kind == PositionKind::relative || kind == PositionKind::relative_each; }
/// The names of its values.
constexpr auto names_of(PositionKind) {
  using enum PositionKind;
  return std::to_array<Named<PositionKind>>({{sinusoidal, "sinusoidal"},
                                             {sinusoidal_halves, "sinusoidal_halves"},
                                             {learned, "learned"},
                                             {rotary, "rotary"},
                                             {rotary_interleaved, "rotary_interleaved"},
                                             {relative, "relative"},
                                             {relative_each, "relative_each"},
                                             {none, "none"}});
}

/// What positions are besides their kind.
struct PositionOptions {
  index_t offset = 0;          ///< rows of a table before that of place 0, as BART and M2M-100 have 2; it is that much longer
  double rotary_fraction = 1;  ///< of a head's width, how many columns rotary positions turn, the first ones

  index_t buckets = 32;        ///< of the distances of relative positions; where a token sees those behind it too, half for these
  index_t max_distance = 128;  ///< from which on all distances are in one bucket

  friend bool operator==(const PositionOptions&, const PositionOptions&) = default;
  template <class F>
  static void fields(F&& field) {
    field("offset", &PositionOptions::offset, between(0, 1 << 16), IfAbsent{index_t{0}}, Since{4});
    field("rotary_fraction", &PositionOptions::rotary_fraction, Bounds{.least = 0, .most = 1, .above = true}, IfAbsent{1.0},
          Since{4}, Flag{"Part of a head that rotary positions turn"});
    field("buckets", &PositionOptions::buckets, between(2, 1 << 16), IfAbsent{index_t{32}}, Since{4},
          Flag{"Of distances, for relative positions", "--position-buckets"});
    field("max_distance", &PositionOptions::max_distance, between(2, 1 << 28), IfAbsent{index_t{128}}, Since{4},
          Flag{"From which on relative positions are one", "--position-max-distance"});
  }
};

/// The positions of a stack, and the attentions that they are for.
struct AttentionPositionOptions {
  PositionKind kind = PositionKind::none;
  index_t max_length = 1024;
  double base = 10000;
  PositionOptions more = {};
  index_t heads = 1, d_k = 0;
  index_t kv_heads = 1;
  bool causal = false;

  /// How many columns of a head rotary positions turn; 0 where that is no even number.
  [[nodiscard]] index_t turned() const {
    const double columns = more.rotary_fraction * static_cast<double>(d_k), whole = std::round(columns);
    const auto count = static_cast<index_t>(whole);
    return std::abs(columns - whole) < 1e-6 && count % 2 == 0 ? count : 0;
  }
  [[nodiscard]] BucketOptions bucket_options() const { return {more.buckets, more.max_distance, causal}; }
};

/// Throws ValueError, which begins with `stack`, where they do not fit together.
inline void check(const AttentionPositionOptions& o, const char* stack) {
  check_value(o.more.offset == 0 || is_added(o.kind), stack, "position.offset is ", o.more.offset,
              ", and only positions that are added to embeddings have one");
  check_value(o.more.rotary_fraction == 1 || is_rotary(o.kind), stack, "position.rotary_fraction is ", o.more.rotary_fraction,
              ", and positions are not rotary");
  check_value(!is_rotary(o.kind) || o.turned() > 0, stack, "rotary positions turn ", o.more.rotary_fraction, " of ", o.d_k,
              " columns of a head, expected an even number of them");
  const PositionOptions usual;
  check_value((o.more.buckets == usual.buckets && o.more.max_distance == usual.max_distance) || is_relative(o.kind), stack,
              "position.buckets is ", o.more.buckets, " and position.max_distance ", o.more.max_distance,
              ", and positions are not relative");
  if (is_relative(o.kind)) check(o.bucket_options(), stack);
}

/// Adds to each row of a sentence what says where in the sentence it stands: fixed sinusoids or a learned table.
template <class T, Device D = Cpu>
struct Positions {
  using value_type = T;
  using device_type = D;
  PositionKind kind;
  Var<T, D> table;  // [offset + max_length, width]; for sinusoids a constant, computed and not stored
  index_t offset = 0;

  index_t length = 0;  // how many places there are; 0: as many as you like

  /// Places 0 to max_length - 1, for rows of that width. Throws ValueError.
  Positions(PositionKind kind_, index_t max_length, index_t width, double base = 10000, const PositionOptions& more = {})
      : kind(kind_), offset(more.offset) {
    if (kind == PositionKind::none) return;
    check_value(max_length > 0, "Positions", "max_length ", max_length, " is not positive");
    length = max_length;
    if (!is_added(kind)) return;
    if (kind != PositionKind::learned) {
      const auto order = kind == PositionKind::sinusoidal ? SinusoidOrder::interleaved : SinusoidOrder::halves;
      table = Var<T, D>(sinusoid<T>(offset + max_length, width, base, order).template to<D>());
    } else {
      table = constant_parameter<T, D>({offset + max_length, width}, 0);
      normal(table.value(), 0.02);
    }
  }
  /// Shapes: x [rows, width]. Throws ShapeError if a sentence has more rows than there are positions.
  Var<T, D> operator()(const Var<T, D>& x, const Segments& segments) const {
    if (!is_added(kind)) return x;
    return add_positions(x, offset == 0 ? table : slice(table, 0, offset, length), segments);
  }
  /// The same for rows that stand at these places. Where only the device knows them, x itself gets what is added.
  Var<T, D> operator()(const Var<T, D>& x, const Places& places) const {
    if (places.sentences) return (*this)(x, *places.sentences);
    if (!places.step) return at(x, places.place);
    if (is_added(kind))
      add_row_at(D{}, x.dim(0), x.dim(1), table.data() + (offset + places.place) * x.dim(1), places.step, x.data());
    return x;
  }
  /// The same for rows that all stand at place `place` of their sentences, from 0. Throws ShapeError if there is no such
  /// place.
  Var<T, D> at(const Var<T, D>& x, index_t place) const {
    check_place(place);
    return is_added(kind) ? add(x, Var<T, D>(table.value().rows(offset + place, 1))) : x;
  }
  /// Throws ShapeError if there is no such place.
  void check_place(index_t place) const {
    if (length > 0 && place >= length)
      throw ShapeError("Positions: token ", place, " is beyond the ", length, " positions of the model");
  }
  template <class F>
  void fields(F&& field) {
    if (kind == PositionKind::learned) field("weight", table);
  }
};

/// What tells a self-attention where its rows stand, for kinds of positions that are not added to the embeddings; nothing, as it
/// is at first, for the others. Layers may share one. Source of rotary positions: Su et al. 2021.
template <class T, Device D = Cpu>
struct AttentionPositions {
  using value_type = T;
  using device_type = D;
  PositionKind kind = PositionKind::none;
  RotaryOptions heads = {};  // of rotary positions: the queries' and the keys'
  std::optional<RelativeBias<T, D>> relative_attention_bias = {};
  Tensor<Wide<T>, D> turns{};  // of rotary positions, [max_length, columns that turn]: see rotary_turns

  AttentionPositions() = default;
  /// Throws ValueError where the options do not fit together.
  explicit AttentionPositions(const AttentionPositionOptions& o) : kind(is_added(o.kind) ? PositionKind::none : o.kind) {
    check(o, "AttentionPositions");
    if (is_rotary(kind)) {
      heads = {o.heads + o.kv_heads, o.d_k, kind == PositionKind::rotary ? RotaryOrder::halves : RotaryOrder::interleaved};
      turns = rotary_turns<Wide<T>>(o.max_length, o.turned(), o.base).template to<D>();
    }
    if (is_relative(kind)) relative_attention_bias.emplace(o.heads, o.max_length, o.bucket_options());
  }

  /// What the other layers of a stack are to have too; null if each has its own.
  [[nodiscard]] const AttentionPositions* shared() const { return kind == PositionKind::relative_each ? nullptr : this; }
  /// The queries and keys of a packed projection as they are at these places.
  [[nodiscard]] Var<T, D> placed(const Var<T, D>& qkv, const Places& places) const {
    return is_rotary(kind) ? rotary(qkv, turns, places, heads) : qkv;
  }
  /// What goes to the scores by distance, for sentences of up to `longest` rows; see attend::AttentionOptions.
  [[nodiscard]] std::optional<Var<T, D>> distance_bias(index_t longest) const {
    if (!relative_attention_bias) return {};
    return relative_attention_bias->by_distance(longest);
  }
  /// The same for as many rows as there is room for, of which no more will be used than there are positions.
  [[nodiscard]] std::optional<Var<T, D>> distance_bias_within(index_t room) const {
    return distance_bias(relative_attention_bias ? std::min(room, relative_attention_bias->max_length()) : room);
  }
  /// Has an attention add it to its scores, beside the bias that it may have already.
  void add_to(AttentionOptions<T, D>& how, index_t longest) const {
    if (!relative_attention_bias) return;
    if (!how.bias) how.distance_bias = distance_bias(longest);
    else if (how.bias->shape().rank() >= 2)
      how.bias = add(*how.bias, relative_attention_bias->matrix(how.bias->dim(-2), how.bias->dim(-1)));
  }
  template <class F>
  void fields(F&& field) {
    field("relative_attention_bias", relative_attention_bias);
  }
};

}  // namespace attend::nn
