/*
 * A disk in memory that can lose its power. It serves one folder through an fv_io table and keeps a
 * journal of all changes; afterwards it can be rebuilt as a power cut at any moment may have left
 * it:
 *
 *     crash_disk *disk = crash_disk_new();
 *     fv_io io;
 *     crash_disk_io(disk, &io);
 *     ... save files through io ...
 *     for (size_t at = 0; at <= crash_disk_changes(disk); at++) {
 *         crash_disk *left = crash_disk_cut(disk, at, seed);
 *         ... load them again ...
 *         crash_disk_free(left);
 *     }
 *
 * It guarantees what POSIX guarantees. A write is on the disk after a sync of its file; before that
 * each write may be complete, truncated or lost, independently. A name that was created, replaced
 * or removed is so after a sync of the folder; before that each change may have happened or not.
 */
#ifndef FV_TEST_CRASHDISK_H
#define FV_TEST_CRASHDISK_H

#include "fovea/context.h"

typedef struct crash_disk crash_disk;

crash_disk *crash_disk_new(void);
void crash_disk_free(crash_disk *disk);
void crash_disk_io(crash_disk *disk, fv_io *io);

/* From now on syncs of files, or of the folder, report success but do nothing: the losses show that
 * a test which relies on them can fail. */
void crash_disk_lie(crash_disk *disk, bool about_files, bool about_folder);

/* Entries of the journal so far. */
size_t crash_disk_changes(const crash_disk *disk);

/* The disk after a power cut that follows the first `changes` entries. Of what was not synced, seed
 * 0 loses everything, seed 1 nothing, and others a random part. */
crash_disk *crash_disk_cut(const crash_disk *disk, size_t changes, uint64_t seed);

/* Number of files whose name has this ending. */
int crash_disk_count(const crash_disk *disk, const char *suffix);

#endif
