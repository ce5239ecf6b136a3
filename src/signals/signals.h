/* Shared by the files of impactarbiter._signals, grouped by owning file.
 *
 * Everything here runs with the GIL held, but for the handlers and what is
 * said to be async-signal-safe.
 */
#ifndef IA_SIGNALS_H
#define IA_SIGNALS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <signal.h>

/* -- taken.c -------------------------------------------------------------- */

/* The system's handler of what is taken. */
void ia_on_signal(int number);

/* Whether it asks for an end, and the one before it came so long ago and was
 * not answered; else it is the first, or one more.  Async-signal-safe, as is
 * the next. */
int ia_signal_is_overdue(int number);

/* What comes next is the first. */
void ia_signal_is_answered(int number);

/* 1 where the disposition is as asked, 0 where not, -1 with an exception. */
int ia_signal_is_set_to(int number, void (*handler)(int));

/* Whether Python's table has what can be called; no code of Python's runs, but
 * what the program has put in the place of getsignal(). */
int ia_signal_calls_python(int number);

extern PyMethodDef ia_taken_methods[];

/* -- waiting.c ------------------------------------------------------------ */

/* Lets those wait that Python handles, ``but`` that one, and those that are
 * taken; 1 where they wait from here on, 0 where they wait already, and on
 * another thread than the main one, which has none to run.  No
 * handler runs; those of what came before have yet to. */
int ia_signals_hold(int but);

int ia_signals_are_held(void);

/* Sends what came since, and holds no more; nothing where none is held. */
void ia_signals_let_go(void);

/* Where what is taken comes back after the wait, the default disposition
 * does; 1 where it was so, 0 where not, -1 with an exception. */
int ia_signal_ends_after_wait(int number);

extern PyMethodDef ia_waiting_methods[];

/* -- aside.c -------------------------------------------------------------- */

int ia_is_main_thread(void);

extern PyMethodDef ia_aside_methods[];

#endif /* IA_SIGNALS_H */
