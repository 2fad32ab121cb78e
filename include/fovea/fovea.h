/*
 * fovea/fovea.h: every public header at once. Including just the ones a file needs compiles
 * faster and says more.
 */
#ifndef FOVEA_FOVEA_H
#define FOVEA_FOVEA_H

#include "fovea/architectures.h"
#include "fovea/attention.h"
#include "fovea/attention_kernels.h"
#include "fovea/autograd.h"
#include "fovea/batch.h"
#include "fovea/batches.h"
#include "fovea/cache.h"
#include "fovea/context.h"
#include "fovea/corpus.h"
#include "fovea/datasets.h"
#include "fovea/dates.h"
#include "fovea/file.h"
#include "fovea/gemm.h"
#include "fovea/generate.h"
#include "fovea/info.h"
#include "fovea/layers.h"
#include "fovea/look.h"
#include "fovea/model.h"
#include "fovea/nearest.h"
#include "fovea/npy.h"
#include "fovea/ops.h"
#include "fovea/optim.h"
#include "fovea/positions.h"
#include "fovea/recipe.h"
#include "fovea/recurrent.h"
#include "fovea/safetensors.h"
#include "fovea/search.h"
#include "fovea/seq2seq.h"
#include "fovea/sequence_net.h"
#include "fovea/status.h"
#include "fovea/task.h"
#include "fovea/tensor.h"
#include "fovea/text_metric.h"
#include "fovea/tokenizer.h"
#include "fovea/train.h"
#include "fovea/transformer.h"
#include "fovea/translate.h"
#include "fovea/unicode.h"
#include "fovea/vmath.h"

#endif
