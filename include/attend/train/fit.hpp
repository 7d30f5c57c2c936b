#pragma once

#include "attend/core/tokenizer.hpp"
#include "attend/text/any_tokenizer.hpp"
#include "attend/train/options.hpp"
#include "attend/train/trainer.hpp"

namespace attend::train {

/// Trains `model` on the pairs of `corpus` (a `text::Corpus`, any range of things with `source` and `target`, or pairs in the
/// tokens of `tokenizer` already: EncodedPairs, of a file say) in the tokens of `tokenizer`, which must not change meanwhile.
///
/// The model is any struct with `fields` and `loss(batch, CrossEntropyOptions)`, the mean over the labels of an nn::Batch. It is
/// in evaluation mode afterwards. Its parameters come to lie in one buffer.
///
/// With a `teacher`, a model of the same vocabulary, it learns word-level distillation: of the loss, the share
/// `distillation_weight` is how far its distributions over words are from the teacher's, which gets the same sources and the same
/// words before (see `distillation_loss`), and the rest is what it would be without. Model and teacher then need
/// `linear_logits(batch)`, as nn::Transformer has it. The teacher stays as it is.
///
/// What comes out depends on the weights, the corpus, the tokenizer and the options alone: not on the number of
/// threads, nor on where a run was stopped and resumed (but for `max_seconds`, which goes by the clock).
///
/// Throws ValueError for options that are out of range or do not fit each other, the model or the run that is resumed, and
/// for a teacher that does not fit them; IoError if another run writes into `output`, and if the last checkpoint cannot be
/// written (the one before is then still good); FormatError if the one to go on from is damaged; Error if the gradients stay
/// non-finite. What a callback, the model or the tokenizer throws is passed on. Whichever exception ends the training, the
/// checkpoint of that step, from which `resume` goes on, is written first, unless the exception says that the training has
/// diverged.
///
///     train::fit(model, corpus, tokenizer, {.epochs = 10, .tokens_per_batch = 4096});
///     train::fit(small, corpus, tokenizer, {.distillation_weight = 0.7}, model);
template <class Model, class Corpus, text::Tokenizer Tokenizer>
FitReport fit(Model& model, const Corpus& corpus, const Tokenizer& tokenizer, const FitOptions& options = {},
              const Teacher<typename Model::value_type, typename Model::device_type>& teacher = {}) {
  try {
    return Trainer<Model>(model, corpus, text::AnyTokenizer::viewing(tokenizer), options, teacher).run();
  } catch (const RankMismatch&) {
    throw;  // as all others do
  } catch (const std::exception& e) {
    if (options.communicator) options.communicator->fail(e.what());
    throw;
  }
}

}  // namespace attend::train
