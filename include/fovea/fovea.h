/*
 * fovea/fovea.h: every public header at once. Including just the ones a file needs compiles
 * faster and says more.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include "fovea/attention.h"
#include "fovea/attention_kernels.h"
#include "fovea/audio.h"
#include "fovea/autograd.h"
#include "fovea/batch.h"
#include "fovea/context.h"
#include "fovea/data.h"
#include "fovea/encode.h"
#include "fovea/file.h"
#include "fovea/generate.h"
#include "fovea/image.h"
#include "fovea/kernels.h"
#include "fovea/layers.h"
#include "fovea/look.h"
#include "fovea/model.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "fovea/play.h"
#include "fovea/points.h"
#include "fovea/read.h"
#include "fovea/recipe.h"
#include "fovea/recommend.h"
#include "fovea/recurrent.h"
#include "fovea/search.h"
#include "fovea/seq2seq.h"
#include "fovea/shots.h"
#include "fovea/task.h"
#include "fovea/tensor.h"
#include "fovea/text_metric.h"
#include "fovea/tokenizer.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "fovea/translate.h"
#include "fovea/trial.h"
#include "fovea/unicode.h"
#include "fovea/walk.h"
#include "fovea/words.h"

#endif
