/* Writing where a file may have a limit of its size (RLIMIT_FSIZE): what is
 * written beyond it raises SIGXFSZ, which ends a process by default. */
#ifndef IA_SIZE_LIMIT_H
#define IA_SIZE_LIMIT_H

typedef struct {
    int was_blocked, was_pending;
} ia_size_limit;

/* From here on such a write of this thread fails with EFBIG alone. */
void ia_size_limit_begin(ia_size_limit *);

/* As it was; nothing is left of the signals in between. */
void ia_size_limit_end(const ia_size_limit *);

#endif /* IA_SIZE_LIMIT_H */
