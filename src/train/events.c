#include "train/events.h"

#include <string.h>

/* Field numbers of Event, Summary, Summary.Value and SessionLog. */
enum {
    EVENT_WALL_TIME = 1,
    EVENT_STEP = 2,
    EVENT_VERSION = 3,
    EVENT_SUMMARY = 5,
    EVENT_SESSION = 7,
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    SESSION_STATUS = 1,
    SESSION_START = 1,
};
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { MOST_TAG = 64, HEAD = 12 };

typedef struct message {
    unsigned char bytes[FV_EVENT_BYTES - HEAD - 4];
    size_t count;
} message;

static void put(message *m, const void *data, size_t n)
{
    if (n > sizeof m->bytes - m->count) n = sizeof m->bytes - m->count;
    memcpy(m->bytes + m->count, data, n);
    m->count += n;
}

static void put_varint(message *m, uint64_t value)
{
    do {
        const unsigned char byte = (unsigned char)((value & 0x7F) | (value > 0x7F ? 0x80 : 0));
        put(m, &byte, 1);
        value >>= 7;
    } while (value);
}

static void put_tag(message *m, unsigned field, unsigned wire) { put_varint(m, field << 3 | wire); }

/* Little-endian, whatever the machine. */
static void little_endian(unsigned char *out, uint64_t bits, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)(bits >> (8 * i));
}

static void put_fixed(message *m, uint64_t bits, size_t bytes)
{
    unsigned char raw[8];
    little_endian(raw, bits, bytes);
    put(m, raw, bytes);
}

static void put_bytes(message *m, unsigned field, const void *data, size_t n)
{
    put_tag(m, field, WIRE_BYTES);
    put_varint(m, n);
    put(m, data, n);
}

static void put_wall_time(message *m, double wall_time)
{
    uint64_t bits;
    memcpy(&bits, &wall_time, sizeof bits);
    put_tag(m, EVENT_WALL_TIME, WIRE_64);
    put_fixed(m, bits, 8);
}

static void put_step(message *m, uint64_t step)
{
    put_tag(m, EVENT_STEP, WIRE_VARINT);
    put_varint(m, step);
}

static uint32_t masked(uint32_t sum) { return (sum >> 15 | sum << 17) + 0xa282ead8u; }

static size_t record(const fv_crc *crc, const message *m, unsigned char out[FV_EVENT_BYTES])
{
    little_endian(out, m->count, 8);
    little_endian(out + 8, masked(fv_crc_add(crc, 0, out, 8)), 4);
    memcpy(out + HEAD, m->bytes, m->count);
    little_endian(out + HEAD + m->count, masked(fv_crc_add(crc, 0, m->bytes, m->count)), 4);
    return HEAD + m->count + 4;
}

size_t fv_event_version(const fv_crc *crc, double wall_time, unsigned char out[FV_EVENT_BYTES])
{
    static const char version[] = "brain.Event:2";
    message m = {.count = 0};
    put_wall_time(&m, wall_time);
    put_bytes(&m, EVENT_VERSION, version, sizeof version - 1);
    return record(crc, &m, out);
}

size_t fv_event_start(const fv_crc *crc, double wall_time, uint64_t step,
                      unsigned char out[FV_EVENT_BYTES])
{
    message session = {.count = 0}, m = {.count = 0};
    put_tag(&session, SESSION_STATUS, WIRE_VARINT);
    put_varint(&session, SESSION_START);
    put_wall_time(&m, wall_time);
    put_step(&m, step);
    put_bytes(&m, EVENT_SESSION, session.bytes, session.count);
    return record(crc, &m, out);
}

size_t fv_event_scalar(const fv_crc *crc, double wall_time, uint64_t step, const char *tag,
                       double value, unsigned char out[FV_EVENT_BYTES])
{
    size_t n = strlen(tag);
    if (n > MOST_TAG) n = MOST_TAG;
    const float simple = (float)value;
    uint32_t bits;
    memcpy(&bits, &simple, sizeof bits);
    message pair = {.count = 0}, summary = {.count = 0}, m = {.count = 0};
    put_bytes(&pair, VALUE_TAG, tag, n);
    put_tag(&pair, VALUE_SIMPLE, WIRE_32);
    put_fixed(&pair, bits, 4);
    put_bytes(&summary, SUMMARY_VALUE, pair.bytes, pair.count);
    put_wall_time(&m, wall_time);
    put_step(&m, step);
    put_bytes(&m, EVENT_SUMMARY, summary.bytes, summary.count);
    return record(crc, &m, out);
}
