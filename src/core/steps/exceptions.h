/* Exceptions that came while our Python code ran and are the program's: an
 * interrupt, a sys.exit() in a signal handler. */
#ifndef IA_EXCEPTIONS_H
#define IA_EXCEPTIONS_H

/* Clears the exception that is set, and raises it where this thread's program
 * goes on. */
void ia_pass_on_exception(void);
/* Is the exception that is set the program's, by asking `whose` (NULL: nobody)
 * of an Exception?  What a handler raises while that is asked takes its place;
 * where there is no room to ask, it is not. */
int ia_is_programs(PyObject *whose);
/* Is it want of stack, of memory or of file descriptors? */
int ia_is_shortage(void);

#endif /* IA_EXCEPTIONS_H */
