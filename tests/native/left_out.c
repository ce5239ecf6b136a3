/* What a sweep of the ledger asks of files that call Python: nothing. */

#include "../steps/curves.h"
#include "tensors.h"

/* Tensors are Python's. */
void
ia_tensors_mark_stacks(void)
{
}

/* Curves make Python's objects of what they have. */
void
ia_curves_forget_site(uint32_t site)
{
    (void)site;
}
