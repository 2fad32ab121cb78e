/*
 * Weights that torch.save has written (pytorch_model.bin), as shards of an open safetensors set:
 * each tensor is a view of a storage.
 *
 * The usual form, since torch 1.6, is a ZIP archive: NAME/data.pkl describes the tensors (see
 * io/pickle.h), and NAME/data/KEY is the storage KEY, not compressed, with its CRC-32. The older
 * form is a sequence of five pickles (a magic number, a version, the machine, the tensors, the keys
 * of the storages) and then, for each key, the number of elements in eight bytes and the elements.
 */
#ifndef FV_IO_TORCH_FILE_H
#define FV_IO_TORCH_FILE_H

#include "io/safetensors_file.h"
#include "io/scan.h"

/* The form of an open file by its first bytes; whatever is not torch's is taken for safetensors. */
fv_status fv_torch_detect(const fv_file *file, fv_weights_form *out);

/* As fv_safetensors_read_header: fills the shard's entries, views and storages. */
fv_status fv_torch_read_header(fv_safetensors *set, size_t shard);

/* The view behind an entry and its storage; NULL in a safetensors file. */
const fv_torch_view *fv_torch_view_of(const fv_safetensors *set, const fv_file_entry *entry);

/* Sets up the check of an entry whose read covers its whole storage; checks the storage on its own,
 * once, where it does not. */
fv_status fv_torch_check(fv_safetensors *set, const fv_file_entry *entry, fv_scan *scan);
/* True if the sum that `scan` has computed is that of the entry's storage. */
bool fv_torch_sum_matches(const fv_safetensors *set, const fv_file_entry *entry, uint32_t sum);

/* Bytes of an entry whose view is not contiguous. */
fv_status fv_torch_gather(fv_safetensors *set, const fv_file_entry *entry, uint64_t offset,
                          char *out, size_t bytes);

#endif
