/* UTF-8 text that a buffer's end may have cut; without Python, as what is left
 * of a dying process is written by it, too. */
#ifndef IA_LETTERS_H
#define IA_LETTERS_H

#include <string.h>

/* The length of UTF-8 text without a last character that a buffer's end has
 * cut in two. */
static inline size_t
ia_whole_length(const char *text)
{
    size_t n = strlen(text), lead = n;
    while (lead > 0 && n - lead < 3 && (text[lead - 1] & 0xC0) == 0x80)
        lead--;
    if (lead == 0)
        return n;
    unsigned char c = (unsigned char)text[lead - 1];
    size_t wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return n - lead + 1 < wanted ? lead - 1 : n;
}

#endif /* IA_LETTERS_H */
