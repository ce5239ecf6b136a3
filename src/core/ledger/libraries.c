/* Library code and the user's, told apart by the file's name. */

#include "libraries.h"

#include <stdlib.h>
#include <string.h>

static char **prefixes, **files; /* owned, and what they list too */
static size_t nprefixes, nfiles;

static int
replace_list(char ***list, size_t *n, const char *const *items, size_t count)
{
    char **copy = calloc(count ? count : 1, sizeof *copy);
    size_t done = 0;
    if (copy == NULL)
        return -1;
    for (; done < count; done++)
        if ((copy[done] = strdup(items[done])) == NULL)
            break;
    if (done < count) {
        while (done > 0)
            free(copy[--done]);
        free(copy);
        return -1;
    }
    for (size_t i = 0; i < *n; i++)
        free((*list)[i]);
    free(*list);
    *list = copy;
    *n = count;
    return 0;
}

int
ia_libraries_set(const char *const *list, size_t count)
{
    return replace_list(&prefixes, &nprefixes, list, count);
}

int
ia_libraries_except(const char *const *list, size_t count)
{
    return replace_list(&files, &nfiles, list, count);
}

/* Code without a file is the user's where a person can have typed it. */
static int
is_typed_in(const char *file)
{
    return strcmp(file, "<stdin>") == 0 || strcmp(file, "<string>") == 0 ||
           strncmp(file, "<ipython", 8) == 0 ||
           strncmp(file, "<doctest", 8) == 0 ||
           strncmp(file, "<python-input", 13) == 0;
}

int
ia_library_has(const char *file)
{
    if (file[0] == '<')
        return !is_typed_in(file);
    for (size_t i = 0; i < nfiles; i++)
        if (strcmp(file, files[i]) == 0)
            return 0;
    for (size_t i = 0; i < nprefixes; i++)
        if (strncmp(file, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}
