/*
 * TensorBoard event files: records of length, masked CRC-32C of the length, data, masked CRC-32C
 * of the data, where the data is an Event message of protocol buffers. Only scalars are written.
 */
#ifndef FV_TRAIN_EVENTS_H
#define FV_TRAIN_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "io/crc.h"

enum { FV_EVENT_BYTES = 256 };

/* One record into `out`; returns its bytes. Tags of more than 64 bytes are cut. */
size_t fv_event_version(const fv_crc *crc, double wall_time, unsigned char out[FV_EVENT_BYTES]);
/* Marks that the run resumes at `step`: TensorBoard drops later points. */
size_t fv_event_start(const fv_crc *crc, double wall_time, uint64_t step,
                      unsigned char out[FV_EVENT_BYTES]);
size_t fv_event_scalar(const fv_crc *crc, double wall_time, uint64_t step, const char *tag,
                       double value, unsigned char out[FV_EVENT_BYTES]);

#endif
