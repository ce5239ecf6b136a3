/* Frames and code without an interpreter: see fake_frames.c. */
#ifndef FAKE_FRAMES_H
#define FAKE_FRAMES_H

#include <Python.h>

#include "frames.h"

/* Once, before any thread. */
void fake_init(void);
/* The calling thread enters and leaves a function; a thread that is in none
 * is one without Python. */
void fake_call(int code, int instr);
void fake_return(void);
/* As if code had ended, and other code lay where it was. */
void fake_end_of_code(int code);

#endif /* FAKE_FRAMES_H */
