#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "attend/core/repeated.hpp"
#include "attend/decode/eager_steps.hpp"

namespace attend::decode::detail {

/// Where steps of decoding keep all that they read and write, for as many rows, steps and source rows as there is room for:
/// always in the same places, so that a step can be recorded once and repeated for other sentences.
template <class T, Device D>
struct StepRoom {
  struct Size {
    index_t rows, steps, source_rows;
    index_t longest = 0;  // source, where attention is asked for
    [[nodiscard]] bool holds(const Size& other) const {
      return rows >= other.rows && steps >= other.steps && source_rows >= other.source_rows && longest >= other.longest;
    }
  };

  Size size;
  index_t width;                             // of a row of keys and values, kv_heads * (d_k + d_v)
  std::vector<Tensor<T, D>> slabs;           // of each layer, [steps, rows, width]
  std::vector<Tensor<T, D>> source;          // of each layer, [source rows, width]
  Tensor<std::int32_t, D> table, reordered;  // [rows, steps]: in which row of each slab a prefix went on
  Tensor<token_t, D> tokens;                 // [rows]: what the step is given
  Tensor<index_t, D> spans;                  // [2, rows]: the source rows that each row attends to
  Tensor<index_t, D> step;                   // [1]: steps done
  Tensor<Wide<T>, D> result;                 // [rows, vocabulary]: what the step gives
  Tensor<Wide<T>, D> attention;              // [rows, longest]: and where it looks
  std::map<index_t, Repeated<D>> work;       // by the number of rows
  std::vector<const void*> weights;          // that `work` was recorded with: another place makes it worthless

  StepRoom(const nn::Transformer<T, D>& model, const Size& s)
      : size(s),
        width(row_width(model)),
        table({s.rows, s.steps}, 0),
        reordered({s.rows, s.steps}),
        tokens({s.rows}, 0),
        spans({2, s.rows}, 0),
        step({1}),
        result({s.rows, model.decoder.options.vocabulary}),
        attention({s.rows, s.longest}, 0) {
    for (std::size_t l = 0; l < model.decoder.layers.size(); ++l) {
      slabs.emplace_back(Shape{s.steps, s.rows, width});
      source.emplace_back(Shape{s.source_rows, width});
    }
  }
  [[nodiscard]] index_t slab() const { return size.rows * width; }

 private:
  static index_t row_width(const nn::Transformer<T, D>& model) {
    check_value(!model.decoder.layers.empty(), "decoding", "the decoder has no layers");
    const auto& a = model.decoder.layers.front().self_attn;
    return a.kv_heads * (a.d_k + a.d_v);
  }
};

/// The rows of the hypothesis so far, whose keys and values lie in a room; which step it is stands there too.
template <class T, Device D>
struct RoomKeys {
  StepRoom<T, D>& room;
  index_t layer;
  Places places;

  Var<T, D> attend(const nn::MultiHeadAttention<T, D>& a, const Var<T, D>& x) const {
    const auto qkv = a.project(x, places);
    const index_t rows = x.dim(0);
    const index_t* const step = room.step.data();
    const Tensor<T, D> out({rows, a.heads * a.d_v});
    T* const slabs = nth(room.slabs, layer).data();
    const index_t q_width = a.heads * a.d_k;
    append_at(D{}, kernels::Matrix<const T>{qkv.data() + q_width, rows, room.width, qkv.dim(1)}, step, slabs, room.slab());
    std::optional<Var<T, D>> bias;
    const kernels::RoomRows<T> keys{
        slabs, room.slab(), {room.width, 0, a.kv_heads * a.d_k}, as_rows(room.table), step_bias(a, room.size.steps, bias)};
    attention_step_at(D{}, a.step_heads(), {qkv.data(), rows, q_width, qkv.dim(1)}, keys, step, as_rows(out));
    return Var<T, D>(out);
  }
};

/// Reads a stack in a room; see nn::WholeSentences.
template <class T, Device D>
struct RoomReading {
  StepRoom<T, D>& room;
  index_t last;    // layer
  bool attention;  // of which the room gets the attention to the source, if wanted

  [[nodiscard]] Places places() const { return {.step = room.step.data()}; }
  [[nodiscard]] RoomKeys<T, D> own(index_t layer, bool /*causal*/) const { return {room, layer, places()}; }
  [[nodiscard]] SourceKeys<T, D> source(index_t layer, std::size_t /*i*/) const {
    const index_t* const spans = room.spans.data();
    SourceKeys<T, D> keys{nth(room.source, layer).data(), room.width, spans, spans + room.size.rows};
    if (attention && layer == last) keys.attention = room.attention.data(), keys.longest = room.size.longest;
    return keys;
  }
};

/// The steps of a TransformerModel, recorded and repeated. A step is computed for one of a few numbers of rows; those beyond the
/// rows there are compute what nobody reads.
template <class T, Device D>
class RecordedSteps {
 public:
  using Room = StepRoom<T, D>;
  using Size = typename Room::Size;

  struct State {
    // Goes back to the shelf with the state, of which there are no copies: two would write into the same room.
    std::unique_ptr<Room, std::function<void(Room*)>> room;
    Tensor<index_t> spans;          // [2, rows]
    index_t longest = 0, done = 0;  // longest: source
    bool fresh = false;             // no row has changed since the last step
    [[nodiscard]] index_t rows() const { return spans.dim(1); }
    [[nodiscard]] index_t steps() const { return done; }
  };

  explicit RecordedSteps(const StepOptions& options) : options_(options) {}

  /// The head, a shortlist, makes nothing shorter here: each would want a recording of its own for its number of tokens.
  State begin(const nn::Transformer<T, D>& model, const Var<T, D>& memory, const Segments& segments,
              std::span<const token_t> /*head*/) const {
    const index_t longest = segments.longest();
    State state{take(model, {segments.count(), 1, segments.rows(), options_.attention ? longest : 0}),
                EagerSteps<T, D>::source_spans(segments), longest};
    Room& room = *state.room;
    std::vector<const void*> weights;
    for (const auto& p : nn::parameters(model)) weights.push_back(p.data());
    if (room.weights != weights) room.work.clear(), room.weights = std::move(weights);
    for (std::size_t l = 0; l < room.source.size(); ++l) {
      const auto kv = model.decoder.layers[l].cross.front().attention.project_kv(memory).value();
      copy(D{}, kv.size(), kv.data(), room.source[l].data());
    }
    room.step.fill(0);
    write_spans(state);
    return state;
  }

  /// The log-probabilities of what follows, [rows, vocabulary], there until the next step.
  Tensor<Wide<T>, D> step(const nn::Transformer<T, D>& model, State& state, std::span<const token_t> tokens) const {
    if (state.done == state.room->size.steps) grow(model, state, {state.room->size.rows, 2 * state.done, 0});
    Room& room = *state.room;
    const index_t rows = std::min(rounded(state.rows()), room.size.rows);
    const Tensor<token_t> all({rows}, 0);
    std::copy(tokens.begin(), tokens.end(), all.data());
    room.tokens.rows(0, rows).assign(all);
    room.work[rows].run([&, this] { compute(model, room, rows); });
    ++state.done;
    state.fresh = true;
    return room.result.rows(0, state.rows());
  }

  void reorder(const nn::Transformer<T, D>& model, State& state, std::span<const index_t> rows) const {
    const auto count = count_of(rows);
    for (const index_t r : rows)
      if (r < 0 || r >= state.rows()) throw IndexError("TransformerModel: reorder takes row ", r, " of ", state.rows());
    if (count > state.room->size.rows) grow(model, state, {count, state.room->size.steps, 0});
    Room& room = *state.room;
    const auto done = [&](const auto& table) {
      return kernels::Matrix<std::int32_t>{table.data(), count, state.done, room.size.steps};
    };
    reorder_table(D{}, rows.data(), done(room.table), done(room.reordered));
    copy_runs(D{}, done(room.reordered), done(room.table));
    state.spans = EagerSteps<T, D>::reordered_spans(state.spans, rows);
    state.fresh = false;
    write_spans(state);
  }

  /// [rows, longest source]: of the last step. Throws Error before one.
  Tensor<Wide<T>, D> attention(const State& state) const {
    if (!state.fresh) throw Error("TransformerModel: attention is asked for before a step, or after rows have changed");
    const auto& all = state.room->attention;
    const Tensor<Wide<T>, D> own({state.rows(), state.longest});
    copy_runs(D{}, {all.data(), state.rows(), state.longest, all.dim(1)}, as_rows(own));
    return own;
  }

 private:
  /// Rooms that nobody uses, the newest last.
  struct Shelf {
    std::mutex mutex;
    std::vector<std::unique_ptr<Room>> rooms;
    Size largest{1, 32, 1, 0};  // asked for so far, so that a new room need not grow again
  };
  static constexpr std::size_t most_rooms = 2;

  /// The number of rows that n rows are computed as.
  static index_t rounded(index_t n) {
    index_t step = 1;
    while (8 * step < n) step *= 2;
    return (n + step - 1) / step * step;
  }

  std::unique_ptr<Room, std::function<void(Room*)>> take(const nn::Transformer<T, D>& model, const Size& wanted) const {
    const std::lock_guard lock(shelf_->mutex);
    Size& most = shelf_->largest;
    most = {std::max(most.rows, rounded(wanted.rows)), std::max(most.steps, wanted.steps),
            std::max(most.source_rows, rounded(wanted.source_rows)), std::max(most.longest, rounded(wanted.longest))};
    std::unique_ptr<Room> room;
    auto& rooms = shelf_->rooms;
    for (std::size_t i = rooms.size(); i > 0 && !room; --i)
      if (rooms[i - 1]->size.holds(wanted)) {
        room = std::move(rooms[i - 1]);
        rooms.erase(rooms.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
    if (!room) {
      rooms.clear();  // too small for what is asked now
      room = std::make_unique<Room>(model, most);
    }
    return {room.release(), [shelf = shelf_](Room* used) {
              std::unique_ptr<Room> back(used);
              const std::lock_guard again(shelf->mutex);
              if (shelf->rooms.size() < most_rooms) shelf->rooms.push_back(std::move(back));
            }};
  }

  /// Goes on in a larger room.
  void grow(const nn::Transformer<T, D>& model, State& state, Size wanted) const {
    const auto from = std::move(state.room);
    wanted.source_rows = from->size.source_rows, wanted.longest = from->size.longest;
    auto to = take(model, wanted);
    if (to->weights != from->weights) to->work.clear(), to->weights = from->weights;
    for (std::size_t l = 0; l < from->slabs.size(); ++l) {
      copy_runs(D{}, {from->slabs[l].data(), state.done, from->slab()},
                kernels::Matrix<T>{to->slabs[l].data(), state.done, from->slab(), to->slab()});
      copy(D{}, from->source[l].size(), from->source[l].data(), to->source[l].data());
    }
    copy_runs(D{}, {from->table.data(), state.rows(), state.done, from->size.steps},
              kernels::Matrix<std::int32_t>{to->table.data(), state.rows(), state.done, to->size.steps});
    to->step.fill(state.done);
    state.room = std::move(to);
    write_spans(state);
  }

  static void write_spans(const State& state) {
    const index_t rows = state.rows();
    for (index_t k = 0; k < 2; ++k)
      copy_to_device(D{}, rows, state.spans.data() + k * rows, state.room->spans.data() + k * state.room->size.rows);
  }

  void compute(const nn::Transformer<T, D>& model, Room& room, index_t rows) const {
    const auto x = (*model.decoder.embed_tokens)(room.tokens.rows(0, rows));  // [rows, d_model]
    begin_table_step_at(D{}, {room.table.data(), rows, room.size.steps}, room.step.data());
    const auto decoded = model.decoder.read(x, RoomReading<T, D>{room, count_of(model.decoder.layers) - 1, options_.attention});
    const auto logits = model.logits(decoded).value();
    log_softmax_forward(D{}, rows, logits.dim(1), logits.data(), room.result.data());
    advance(D{}, room.step.data());
  }

  StepOptions options_;
  std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace attend::decode::detail
