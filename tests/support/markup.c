#include "support/markup.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "io/utf8.h"

int count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        count++;
    return count;
}

static bool allowed(const char *text)
{
    if (!fv_utf8_valid(text, strlen(text))) return false;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 && *p != '\n' && *p != '\t' && *p != '\r') return false;
        if (p[0] == 0xEF && p[1] == 0xBF && p[2] >= 0xBE) return false; /* U+FFFE, U+FFFF */
    }
    return true;
}

static bool entity(const char **at)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(*at, known[i], strlen(known[i])) == 0) {
            *at += strlen(known[i]);
            return true;
        }
    return false;
}

static size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '-' || at[n] == ':')
        n++;
    return n;
}

/* Attributes up to '>' or '/'. */
static const char *attributes(const char **at)
{
    while (**at == ' ') {
        (*at)++;
        const size_t n = name_length(*at);
        if (n == 0 || (*at)[n] != '=' || (*at)[n + 1] != '"') return "an attribute";
        for (*at += n + 2; **at != '"';) {
            if (**at == '\0' || **at == '<') return "the end of an attribute";
            if (**at == '&' ? !entity(at) : ((*at)++, false)) return "an entity in an attribute";
        }
        (*at)++;
    }
    return NULL;
}

const char *markup_wrong(const char *text)
{
    enum { DEEP = 32 };
    struct {
        const char *name;
        size_t n;
    } open[DEEP];
    int depth = 0, roots = 0;
    if (!allowed(text)) return "a character that XML forbids";
    for (const char *at = text; *at;) {
        if (*at == '&') {
            if (depth == 0 || !entity(&at)) return "an entity";
        } else if (*at != '<') {
            if (depth == 0 && *at != '\n') return "text outside of the root";
            at++;
        } else if (at[1] == '/') {
            at += 2;
            if (depth == 0 || strncmp(at, open[depth - 1].name, open[depth - 1].n) != 0 ||
                at[open[depth - 1].n] != '>')
                return "an end that fits no beginning";
            at += open[--depth].n + 1;
        } else {
            const size_t n = name_length(++at);
            if (n == 0 || depth == DEEP) return "a tag";
            if (depth == 0) roots++;
            open[depth].name = at;
            open[depth].n = n;
            at += n;
            const char *wrong = attributes(&at);
            if (wrong) return wrong;
            if (*at == '/')
                at++;
            else
                depth++;
            if (*at++ != '>') return "the end of a tag";
        }
    }
    return depth != 0 ? "a tag is left open" : roots != 1 ? "not one root" : NULL;
}
