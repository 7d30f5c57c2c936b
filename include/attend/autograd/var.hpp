#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attend/autograd/gradient_room.hpp"
#include "attend/core/repeated.hpp"
#include "attend/core/tensor.hpp"
#include "attend/cpu/basic.hpp"

namespace attend {

template <class T, Device D>
class Var;

namespace detail {

struct Recording;

/// Whether operations of this thread are recorded.
inline bool& grad_flag() {
  thread_local bool enabled = true;
  return enabled;
}

/// What the graph knows of a value whatever its type: how it came about. Values of several types may stand in one graph, as when
/// a loss in float is computed from numbers in bfloat16.
struct NodeBase {
  /// Takes the address of the gradient, a Tensor of the value's own type.
  using Backward = std::function<void(const void* dy)>;

  Backward backward;  // empty for a leaf
  std::vector<std::shared_ptr<NodeBase>> inputs;
  std::uint64_t order = 0;  // grows with time, so descending order visits a node after all that used it
  bool computed = false;
  bool requires_grad = false;
  bool fixed_grad = false;  // the gradient is a view of a shared buffer and is only ever written in place
  bool released = false;    // a backward pass has used this node up
  bool visited = false;

  NodeBase() = default;
  NodeBase(const NodeBase&) = delete;
  NodeBase& operator=(const NodeBase&) = delete;
  virtual ~NodeBase() { dismantle(std::move(backward), std::move(inputs)); }
  /// Calls function(gradient) if there is a gradient, and lets go of that.
  virtual void pass_on(const Backward& function) = 0;

  /// Frees a graph iteratively: destructors that free one node through another would overflow the stack on a long chain.
  static void dismantle(Backward&& function, std::vector<std::shared_ptr<NodeBase>>&& nodes) {
    struct Remains {
      Backward function;
      std::vector<std::shared_ptr<NodeBase>> nodes;
    };
    thread_local std::vector<Remains>* waiting = nullptr;
    if (!function && nodes.empty()) return;
    if (waiting) {
      waiting->push_back({std::move(function), std::move(nodes)});
      return;
    }
    std::vector<Remains> list;
    waiting = &list;
    list.push_back({std::move(function), std::move(nodes)});
    while (!list.empty()) {
      // Destroying this may call dismantle again for nodes that it kept alive; those wait in the list.
      const Remains remains = std::move(list.back());
      list.pop_back();
    }
    waiting = nullptr;
  }

  static std::uint64_t next_order() {
    static std::atomic<std::uint64_t> counter{0};
    return counter.fetch_add(1, std::memory_order_relaxed);
  }
};

/// The place of one value in the graph: its gradient, and how it came about. A leaf's value lives here, where all its handles
/// find it; a computed value lives in the handles alone, so that it goes when nobody reads it any more.
template <class T, Device D>
struct Node : NodeBase {
  Tensor<T, D> value;  // of a leaf
  Tensor<T, D> grad;
  Shape shape;  // of a computed value

  void pass_on(const Backward& function) override {
    const Tensor<T, D> gradient = std::exchange(grad, {});
    if (!gradient.empty()) function(&gradient);
  }
};

}  // namespace detail

/// True if operations record how their results came about. Per thread.
inline bool grad_enabled() { return detail::grad_flag(); }

/// While one is in scope, nothing is recorded: for evaluation and decoding.
class NoGrad {
 public:
  NoGrad() : before_(std::exchange(detail::grad_flag(), false)) {}
  ~NoGrad() { detail::grad_flag() = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// While one is in scope, backward passes of this thread call `complete` with the identity (`Var::id`) of each leaf as soon as
/// they add nothing more to its gradient, so that it can be passed on while others are still computed. Leaves that they do not
/// reach are not named.
class GradientWatch {
 public:
  /// Told of a leaf by its `Var::id`.
  using Function = std::function<void(const void* id)>;
  explicit GradientWatch(Function complete) : complete_(std::move(complete)), before_(std::exchange(current(), this)) {}
  ~GradientWatch() { current() = before_; }
  GradientWatch(const GradientWatch&) = delete;
  GradientWatch& operator=(const GradientWatch&) = delete;

 private:
  template <class T, Device D>
  friend class Var;
  static GradientWatch*& current() {
    thread_local GradientWatch* watch = nullptr;
    return watch;
  }

  /// Counts, for each leaf, how many of these values have yet to hand it a gradient.
  void begin(const std::vector<std::shared_ptr<detail::NodeBase>>& order) {
    remaining_.clear();
    for (const auto& node : order)
      for (const auto& input : node->inputs)
        if (!input->computed) ++remaining_[input.get()];
  }
  void end_of(const detail::NodeBase& node) {
    for (const auto& input : node.inputs)
      if (!input->computed && --remaining_[input.get()] == 0) complete_(input.get());
  }

  Function complete_;
  GradientWatch* before_;
  std::unordered_map<const void*, index_t> remaining_;
};

/// Where the gradient of a value is gathered, without the value. For an input whose value it does not read, a backward keeps this
/// in place of the Var, so that the memory of that value is free as soon as nobody else reads it.
template <class T, Device D = Cpu>
class GradientSink {
 public:
  using Node = detail::Node<T, D>;

  /// Of the value: whether a gradient is wanted, its shape and size, and whether nothing computed it.
  [[nodiscard]] bool requires_grad() const { return node_->requires_grad; }
  [[nodiscard]] const Shape& shape() const { return node_->computed ? node_->shape : node_->value.shape(); }
  [[nodiscard]] index_t size() const { return shape().size(); }
  [[nodiscard]] bool is_leaf() const { return !node_->backward; }
  /// The identity of the value: equal for two handles of the same parameter.
  [[nodiscard]] const void* id() const { return node_.get(); }

  /// Adds `dx` to the value's gradient. Takes the tensor over if it can.
  void accumulate(Tensor<T, D> dx) const {
    if (!requires_grad()) return;
    check_recording();
    check_shape("backward", "gradient", dx.shape(), shape());
    auto& g = node_->grad;
    if (!node_->fixed_grad && g.empty()) {
      // Another value may hold the same storage as its gradient; a leaf's is the user's to change, so it gets its own.
      g = (is_leaf() && !dx.unique()) ? dx.clone() : std::move(dx);
      return;
    }
    own_grad();
    add_into(D{}, g.size(), dx.data(), detail::gradient_place(g.data()));
  }
  /// For the backward of an operation that can add to memory itself: calls write(g) with a kernels::Gradient<T>, where it must
  /// leave its contribution: on top of what is there if g.add; otherwise nothing is there yet.
  template <class F>
  void accumulate_with(F&& write) const {
    if (!requires_grad()) return;
    check_recording();
    auto& g = node_->grad;
    const bool fresh = !node_->fixed_grad && g.empty();
    if (fresh) g = Tensor<T, D>(shape());
    else own_grad();
    write(kernels::Gradient<T>{detail::gradient_place(g.data()), !fresh});
  }

 private:
  friend class Var<T, D>;
  explicit GradientSink(std::shared_ptr<Node> node) : node_(std::move(node)) {}
  /// A recording writes where it wrote the first time, and what the host does here is not repeated with it: a leaf's gradient
  /// must have its place already, and keep it.
  void check_recording() const {
    if (node_->computed || node_->fixed_grad || !recording(D{})) return;
    spoil_recording(D{});
    throw RecordingError("backward: a leaf of shape ", shape().text(),
                         " gets its gradient in recorded work, expected set_grad_buffer first (optimizers do that)");
  }
  void own_grad() const {
    if (!node_->fixed_grad && !node_->grad.unique()) node_->grad = node_->grad.clone();
  }

  std::shared_ptr<Node> node_;
};

/// A tensor in the graph of a computation. Copies are handles to the same value and the same gradient.
template <class T, Device D = Cpu>
class Var {
 public:
  using value_type = T;
  using device_type = D;
  using Node = detail::Node<T, D>;

  /// An empty leaf, of shape [0].
  Var() : Var(Tensor<T, D>()) {}
  /// A leaf: an input (no gradient) or, with `requires_grad`, a parameter.
  explicit Var(Tensor<T, D> value, bool requires_grad = false) : node_(std::make_shared<Node>()) {
    node_->value = std::move(value);
    node_->requires_grad = requires_grad;
  }

  /// The value, and what is asked of it most; see `Tensor`.
  [[nodiscard]] const Tensor<T, D>& value() const { return node_->computed ? computed_ : node_->value; }
  [[nodiscard]] const Shape& shape() const { return value().shape(); }
  [[nodiscard]] index_t dim(index_t i) const { return value().dim(i); }
  [[nodiscard]] index_t size() const { return value().size(); }
  [[nodiscard]] T* data() const { return value().data(); }
  [[nodiscard]] T item() const { return value().item(); }

  /// Whether a gradient is wanted. It may be changed between one computation and the next.
  [[nodiscard]] bool requires_grad() const { return node_->requires_grad; }
  void set_requires_grad(bool value) const { node_->requires_grad = value; }
  /// d(loss)/d(this) after `backward`; of shape [0] if nothing has flowed here. Only leaves keep theirs.
  [[nodiscard]] const Tensor<T, D>& grad() const { return node_->grad; }
  /// The gradient is as if nothing had flowed here: zeros in a place that `set_grad_buffer` gave, otherwise of shape [0].
  void zero_grad() const {
    if (node_->fixed_grad) node_->grad.fill(T(0));
    else node_->grad = {};
  }
  /// The same value, cut off from the graph.
  [[nodiscard]] Var detach() const { return Var(value()); }
  /// Replaces the value of a leaf by one of the same shape. Not between computing a result from it and the backward pass of that
  /// result, which may read the value. Throws ShapeError, Error for a value that was computed.
  void set_value(Tensor<T, D> value) const {
    check_shape("set_value", "value", value.shape(), shape());
    if (node_->computed) throw Error("set_value: this value was computed and is no leaf");
    node_->value = std::move(value);
    weights_changed();
  }
  /// Lets the gradient live in `buffer` (a view of a larger one), which is written in place from now on. Throws ShapeError.
  void set_grad_buffer(Tensor<T, D> buffer) const {
    check_shape("set_grad_buffer", "buffer", buffer.shape(), shape());
    node_->grad = std::move(buffer);
    node_->fixed_grad = true;
  }

  /// Where its gradient is gathered: what the backward of an operation keeps of an input whose value it does not read.
  [[nodiscard]] GradientSink<T, D> sink() const { return GradientSink<T, D>(node_); }
  /// See GradientSink, which these are short for.
  void accumulate(Tensor<T, D> dx) const { sink().accumulate(std::move(dx)); }
  template <class F>
  void accumulate_with(F&& write) const {
    sink().accumulate_with(std::forward<F>(write));
  }

  /// Computes the gradient of this value, a single number, with respect to every leaf that requires one, and adds it to the
  /// leaf's.
  /// Frees the graph on the way. Throws ShapeError if it is not one number, Error if the graph is used up or nothing in it
  /// requires a gradient.
  void backward() const {
    if (size() != 1) throw ShapeError("backward: shape ", shape().text(), " is not a single number; pass its gradient");
    backward(Tensor<T, D>(shape(), T(1)));
  }
  /// The same from d(loss)/d(this) = dy, for a value of any shape.
  void backward(Tensor<T, D> dy) const {
    check_shape("backward", "dy", dy.shape(), shape());
    if (node_->released) throw Error("backward: this graph was freed by an earlier backward pass; compute the value again");
    if (!requires_grad()) throw Error("backward: nothing that this value came from requires a gradient (is a NoGrad in scope?)");
    std::vector<std::shared_ptr<detail::NodeBase>> order = reachable();
    accumulate(std::move(dy));
    GradientWatch* const watch = GradientWatch::current();
    if (watch != nullptr) watch->begin(order);
    for (auto& node : order) {
      const auto function = std::exchange(node->backward, nullptr);
      node->pass_on(function);
      node->released = true;
      if (watch != nullptr) watch->end_of(*node);
      detail::NodeBase::dismantle({}, std::exchange(node->inputs, {}));
      node.reset();
    }
  }

  /// Whether no operation made it, or its graph is gone.
  [[nodiscard]] bool is_leaf() const { return !node_->backward; }
  /// The identity of the value: equal for two handles of the same parameter.
  [[nodiscard]] const void* id() const { return node_.get(); }

 private:
  friend struct detail::Recording;

  /// What this was computed from, latest first. Throws Error if an earlier backward pass has freed a part of it: a gradient
  /// would end there, and the leaves behind it would go without.
  std::vector<std::shared_ptr<detail::NodeBase>> reachable() const {
    std::vector<std::shared_ptr<detail::NodeBase>> found;
    if (is_leaf()) return found;
    bool whole = true;
    node_->visited = true;
    found.push_back(node_);
    for (std::size_t i = 0; i < found.size(); ++i)
      for (std::size_t j = 0; j < found[i]->inputs.size(); ++j) {
        const auto& input = found[i]->inputs[j];
        whole = whole && !input->released;
        if (!input->backward || input->visited) continue;
        input->visited = true;
        found.push_back(input);
      }
    for (const auto& node : found) node->visited = false;
    if (!whole) throw Error("backward: an earlier backward pass freed a part of this graph; compute the value again");
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a->order > b->order; });
    return found;
  }

  std::shared_ptr<Node> node_;
  Tensor<T, D> computed_;  // the value, unless this is a leaf
};

namespace detail {
/// A friend of all Vars, as a struct, because Clang 16 does not take a constrained template for the friend that a class named.
struct Recording {
  /// See `record`.
  template <class T, Device D, class U, class F>
  static Var<T, D> of(Tensor<T, D> value, std::vector<Var<U, D>> inputs, F&& backward) {
    Var<T, D> result(std::move(value));
    if (!grad_enabled()) return result;
    auto& node = *result.node_;
    for (const auto& input : inputs) node.requires_grad = node.requires_grad || input.requires_grad();
    if (!node.requires_grad) return result;
    node.inputs.reserve(inputs.size());
    for (auto& input : inputs) {
      if (input.node_->released) throw Error("record: an input's graph was freed by an earlier backward pass; compute it again");
      if (input.requires_grad()) node.inputs.push_back(input.node_);
    }
    node.shape = node.value.shape();
    result.computed_ = std::exchange(node.value, {});
    node.computed = true;
    node.backward = [run = std::decay_t<F>(std::forward<F>(backward))](const void* dy) mutable {
      run(*static_cast<const Tensor<T, D>*>(dy));
    };
    node.order = detail::NodeBase::next_order();
    return result;
  }
};
}  // namespace detail

/// Makes `value`, computed from `inputs`, part of the graph. `backward(dy)` is called once with d(loss)/d(value) and must hand
/// each input its share by `accumulate(dx)` or `accumulate_with(...)` of the input or of its `sink()`. It may keep inputs whose
/// values it reads, sinks of the others and what it needs besides, never the returned Var itself, which would own itself. With
/// NoGrad in scope, or if no input requires a gradient, nothing is kept. The inputs, as a vector, may be of another type.
template <class T, Device D, class U = T, class F>
Var<T, D> record(Tensor<T, D> value, std::vector<Var<U, D>> inputs, F&& backward) {
  return detail::Recording::of<T, D, U>(std::move(value), std::move(inputs), std::forward<F>(backward));
}

/// The same for two values that are computed together, the second from `more` besides. `backward(da, db)` is called once: with an
/// empty db if nothing has reached the second value, with an empty da if none of `inputs` requires a gradient; otherwise da is
/// what has reached the first value, or zeros, and nobody else reads it: it may be written to.
template <class T, Device D, class F>
std::pair<Var<T, D>, Var<T, D>> record_pair(Tensor<T, D> first, std::vector<Var<T, D>> inputs, Tensor<T, D> second,
                                            std::vector<Var<T, D>> more, F&& backward) {
  auto run = std::decay_t<F>(std::forward<F>(backward));
  if (std::none_of(inputs.begin(), inputs.end(), [](const auto& input) { return input.requires_grad(); })) {
    Var<T, D> b = record(std::move(second), std::move(more),
                         [run = std::move(run)](const Tensor<T, D>& db) mutable { run(Tensor<T, D>(), db); });
    return {Var<T, D>(std::move(first)), std::move(b)};
  }
  const auto passed = std::make_shared<Tensor<T, D>>();  // the gradient of the second, on its way to the backward of both
  for (const auto& input : more)                         // which this backward too hands gradients to
    if (input.is_leaf()) inputs.push_back(input);
  Var<T, D> a = record(std::move(first), std::move(inputs),
                       [passed, run = std::move(run)](const Tensor<T, D>& da) mutable { run(da, std::exchange(*passed, {})); });
  more.push_back(a);
  Var<T, D> b = record(std::move(second), std::move(more), [passed, sink = a.sink()](const Tensor<T, D>& db) {
    *passed = db;
    sink.accumulate_with([&](auto da) {
      if (!da.add) fill(D{}, sink.size(), T(0), da.data);
    });
  });
  return {std::move(a), std::move(b)};
}

}  // namespace attend
