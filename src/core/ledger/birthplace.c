/* Places of births: Python frames, else the running autograd node. */

#include "../base/compat.h"
#include "../base/kinds.h"
#include "../base/thread.h"
#include "birthplace.h"

#include <stdlib.h>

/* Most nodes that are noted between two births on a thread: views and in-place
 * operations make a node each and allocate nothing. */
#define MOST_AT_ONCE 256

typedef struct {
    uint64_t thread;
    uint64_t sequence;
    uint32_t stack;
} known_node;

static known_node *nodes; /* owned, NULL while nobody asks */
atomic_int ia_places_following;
static uint32_t backward_stack;
static uint32_t tables; /* how many there were */
/* Of this thread: the table it last wrote to, and the first node after. */
static IA_OF_THREAD uint32_t noted_in;
static IA_OF_THREAD uint64_t noted;

void
ia_place_capture(ia_place *place)
{
    place->node.name = NULL;
    place->raw = ia_stack_capture();
    if (place->raw->count == 0 && ia_the_framework != NULL &&
        !ia_the_framework->running_node(&place->node))
        place->node.name = NULL;
    if (!ia_place_next(&place->next))
        place->next = (ia_node_mark){0};
}

int
ia_place_next(ia_node_mark *next)
{
    if (!ia_places_follows_nodes() || ia_the_framework == NULL)
        return 0;
    ia_the_framework->next_node(next);
    return 1;
}

static known_node *
slot_of(uint64_t thread, uint64_t sequence)
{
    uint64_t i = sequence + thread * UINT64_C(0x9E3779B97F4A7C15);
    return &nodes[i & (IA_NODES_KNOWN - 1)];
}

static uint32_t
line_of_node(const ia_node_mark *node)
{
    if (nodes == NULL)
        return IA_NO_STACK;
    const known_node *n = slot_of(node->thread, node->sequence);
    return n->thread == node->thread && n->sequence == node->sequence &&
                   n->stack != IA_NO_STACK
               ? n->stack
               : backward_stack;
}

uint32_t
ia_place_intern(const ia_place *place)
{
    if (place->raw->count > 0)
        return ia_stack_intern(place->raw);
    if (place->node.name == NULL)
        return IA_NO_STACK;
    return ia_stack_behind(line_of_node(&place->node), place->node.name,
                           place->node.name_length);
}

void
ia_places_follow_nodes(int on)
{
    free(nodes);
    backward_stack = IA_NO_STACK;
    nodes = on ? calloc(IA_NODES_KNOWN, sizeof *nodes) : NULL;
    tables++;
    ia_places_following = nodes != NULL;
}

void
ia_places_note_nodes(const ia_node_mark *next, uint32_t stack)
{
    if (nodes == NULL || next->thread == 0)
        return;
    /* Nobody noted the lines of what this thread made before. */
    uint64_t first = noted_in == tables ? noted : next->sequence;
    noted_in = tables;
    noted = next->sequence;
    if (next->sequence > first + MOST_AT_ONCE)
        first = next->sequence - MOST_AT_ONCE;
    for (uint64_t i = first; i < next->sequence; i++)
        *slot_of(next->thread, i) = (known_node){next->thread, i, stack};
}

void
ia_places_note_backward(uint32_t stack)
{
    backward_stack = stack;
}

void
ia_places_mark_stacks(void)
{
    ia_stack_mark(backward_stack);
    for (uint32_t i = 0; nodes != NULL && i < IA_NODES_KNOWN; i++)
        ia_stack_mark(nodes[i].stack);
}

size_t
ia_places_bytes(void)
{
    return nodes == NULL ? 0 : IA_NODES_KNOWN * sizeof *nodes;
}
