/* Which arrays have which memory.
 *
 * Several objects may have one buffer: a view of a shard, what device_put()
 * gives back, a TensorFlow tensor that was reshaped; or begin where another
 * one does, as those of slices of one NumPy array.  A claim is one object's
 * share in one piece; the piece is in the ledger from its first claim to its
 * last, as large as the largest of them.  An object is read once, when it has
 * outlived a step or is asked about.  Entries are addresses, never references.
 */
#include "../core/base/array.h"
#include "../core/base/ptrmap.h"
#include "hooks.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX
/* Arrays that are asked at each boundary whether they were deleted meanwhile,
 * beside the newest: all of them in as many boundaries as this, or sooner. */
#define TURNS 16
#define LEAST_ASKED 64

typedef struct {
    PyObject *op; /* borrowed address; NULL = free entry */
    PyObject *part, *list; /* borrowed from op, or NULL */
    ia_storage piece;
    uint32_t next_of_op, next_of_piece; /* free entries: the next one */
    uint8_t entered; /* the ledger's row is for this piece, and ours */
    uint8_t dead;    /* op is NULL, and the piece still in the ledger */
} claim;

static struct {
    claim *items;
    uint32_t count, capacity, free_entry;
    ia_ptrmap of_op;    /* -> its first claim */
    ia_ptrmap of_piece; /* -> the first claim on it */
    uint32_t at;         /* entry whose turn it is to be asked */
} book = {.free_entry = NONE};

/* Entries that were added since the last sweep, and since the one before. */
static struct {
    uint32_t *items; /* owned */
    uint32_t count, capacity;
} now, before, dead;

void
ia_claims_forget(void)
{
    free(book.items);
    ia_ptrmap_free(&book.of_op);
    ia_ptrmap_free(&book.of_piece);
    memset(&book, 0, sizeof book);
    book.free_entry = NONE;
    now.count = before.count = dead.count = 0;
}

uint32_t
ia_claims_count(void)
{
    return (uint32_t)book.of_op.used;
}

/* -- taking and giving ----------------------------------------------------- */

static uint32_t
take_entry(void)
{
    uint32_t i = book.free_entry;
    if (i != NONE) {
        book.free_entry = book.items[i].next_of_op;
        return i;
    }
    if (IA_ROOM(book.items, book.capacity, book.count + 1) < 0)
        return NONE;
    return book.count++;
}

/* Sets the first of a list, or takes the list away; what is set is known, so
 * that no memory is taken. */
static void
set_first(ia_ptrmap *map, uintptr_t key, uint32_t first)
{
    if (first == NONE)
        ia_ptrmap_pop(map, key);
    else
        ia_ptrmap_set(map, key, first);
}

/* Of a list of claims on one piece. */
static size_t
largest(uint32_t first)
{
    size_t bytes = 0;
    for (uint32_t i = first; i != NONE; i = book.items[i].next_of_piece)
        if (book.items[i].piece.bytes > bytes)
            bytes = book.items[i].piece.bytes;
    return bytes;
}

/* Whether one of them has its row. */
static int
is_entered(uint32_t first)
{
    while (first != NONE && !book.items[first].entered)
        first = book.items[first].next_of_piece;
    return first != NONE;
}

/* Takes a claim out of its piece's list; what it entered is the next one's, or
 * dead with it. */
static void
leave_piece(uint32_t gone)
{
    claim *c = &book.items[gone];
    uintptr_t key = c->piece.data;
    uint32_t at = ia_ptrmap_get(&book.of_piece, key);
    if (at == gone) {
        set_first(&book.of_piece, key, c->next_of_piece);
        at = c->next_of_piece;
    } else {
        uint32_t before = at;
        while (book.items[before].next_of_piece != gone)
            before = book.items[before].next_of_piece;
        book.items[before].next_of_piece = c->next_of_piece;
    }
    uint32_t first = ia_ptrmap_get(&book.of_piece, key);
    if (c->entered && at != NONE)
        book.items[at].entered = 1;
    else if (c->entered)
        ia_api->storage_left(key, c->piece.device);
    size_t left = largest(first);
    if (left < c->piece.bytes && is_entered(first))
        ia_api->storage_resized(key, c->piece.device, left);
}

static void
leave_object(uint32_t gone)
{
    const claim *c = &book.items[gone];
    uint32_t at = ia_ptrmap_get(&book.of_op, (uintptr_t)c->op);
    if (at == gone) {
        set_first(&book.of_op, (uintptr_t)c->op, c->next_of_op);
        return;
    }
    while (book.items[at].next_of_op != gone)
        at = book.items[at].next_of_op;
    book.items[at].next_of_op = c->next_of_op;
}

static void
end_claim(uint32_t i)
{
    leave_piece(i);
    book.items[i] = (claim){.next_of_op = book.free_entry};
    book.free_entry = i;
}

static void
drop(PyObject *op)
{
    uint32_t next, i = ia_ptrmap_pop(&book.of_op, (uintptr_t)op);
    for (; i != NONE; i = next) {
        next = book.items[i].next_of_op;
        end_claim(i);
    }
}

void
ia_claims_bury(PyObject *op)
{
    uint32_t next, i = book.of_op.used
                           ? ia_ptrmap_pop(&book.of_op, (uintptr_t)op)
                           : NONE;
    int waits = i != NONE && ia_api->active() && !ia_api->collecting();
    for (; i != NONE; i = next) {
        next = book.items[i].next_of_op;
        if (!waits || IA_ROOM(dead.items, dead.capacity, dead.count + 1) < 0) {
            end_claim(i);
            continue;
        }
        book.items[i].op = NULL;
        book.items[i].dead = 1;
        dead.items[dead.count++] = i;
    }
}

/* One may have ended already, and its entry be another's by now. */
static void
end_dead(void)
{
    for (uint32_t n = 0; n < dead.count; n++)
        if (book.items[dead.items[n]].dead)
            end_claim(dead.items[n]);
    dead.count = 0;
}

/* -- adding ---------------------------------------------------------------- */

static int
is_gone(PyObject *op)
{
    const ia_array_class *c = ia_class_of(Py_TYPE(op));
    return c != NULL && c->is_gone(op);
}

/* A list may be changed by whoever asked for it. */
static int
has_part(const claim *c)
{
    Py_ssize_t count = c->list != NULL ? PyList_GET_SIZE(c->list) : 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyList_GET_ITEM(c->list, i) == c->part)
            return 1;
    return c->list == NULL;
}

/* Ends the claims of what is dead or was deleted, be it a part alone: jaxlib
 * says of an array that it is there while one of its parts is.  Nonzero where
 * there were any. */
static int
drop_if_gone(uint32_t i)
{
    const claim *c = &book.items[i];
    if (c->dead) {
        end_claim(i);
    } else if (is_gone(c->op)) {
        drop(c->op);
    } else if (c->part != NULL && (!has_part(c) || is_gone(c->part))) {
        leave_object(i);
        end_claim(i);
    } else {
        return 0;
    }
    return 1;
}

/* Whoever is gone has left the piece to somebody else. */
static void
drop_gone(uintptr_t key)
{
    uint32_t next, i = ia_ptrmap_get(&book.of_piece, key);
    for (; i != NONE; i = next) {
        next = book.items[i].next_of_piece;
        if (drop_if_gone(i))
            next = ia_ptrmap_get(&book.of_piece, key); /* again */
    }
}

static void
add_claim(PyObject *op, const ia_pieces *pieces, int n, ia_enter enter,
          void *arg)
{
    const ia_storage *piece = &pieces->items[n];
    drop_gone(piece->data);
    uint32_t i = take_entry();
    if (i == NONE)
        return;
    uint32_t of_op = ia_ptrmap_get(&book.of_op, (uintptr_t)op);
    uint32_t of_piece = ia_ptrmap_get(&book.of_piece, piece->data);
    book.items[i] = (claim){.op = op,
                            .part = pieces->parts[n],
                            .list = pieces->list,
                            .piece = *piece,
                            .next_of_op = of_op,
                            .next_of_piece = of_piece};
    if (ia_ptrmap_set(&book.of_op, (uintptr_t)op, i) < 0 ||
        ia_ptrmap_set(&book.of_piece, piece->data, i) < 0) {
        set_first(&book.of_op, (uintptr_t)op, of_op);
        book.items[i] = (claim){.next_of_op = book.free_entry};
        book.free_entry = i;
        return;
    }
    if (enter != NULL && of_piece == NONE)
        book.items[i].entered = enter(piece, arg) != 0;
    else if (of_piece != NONE) {
        book.items[i].entered = book.items[of_piece].entered;
        book.items[of_piece].entered = 0;
        if (piece->bytes > largest(of_piece) && is_entered(i))
            ia_api->storage_resized(piece->data, piece->device, piece->bytes);
    }
    if (IA_ROOM(now.items, now.capacity, now.count + 1) == 0)
        now.items[now.count++] = i;
}

/* Asking is a call like any other: an exception that is being raised stays,
 * and the collector waits. */
static void
read_pieces(const ia_array_class *c, PyObject *op, ia_pieces *out)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    int collecting = PyGC_Disable();
    c->read(op, out);
    if (collecting)
        PyGC_Enable();
    PyErr_Restore(type, value, traceback);
}

/* Reading lets other threads in, which may let go of the array: nobody else's
 * by then, it has no claim to make. */
void
ia_claims_add(const ia_array_class *c, PyObject *op, ia_enter enter, void *arg)
{
    ia_pieces pieces = {.count = 0};
    if (ia_ptrmap_get(&book.of_op, (uintptr_t)op) != IA_PTRMAP_NONE)
        return;
    Py_INCREF(op);
    read_pieces(c, op, &pieces);
    int known = ia_ptrmap_get(&book.of_op, (uintptr_t)op) != IA_PTRMAP_NONE;
    if (Py_REFCNT(op) == 1 || known)
        pieces.count = 0;
    for (int i = pieces.count - 1; i >= 0; i--)
        if (pieces.items[i].bytes > 0 && pieces.items[i].data != 0)
            add_claim(op, &pieces, i, enter, arg);
    Py_DECREF(op);
}

/* -- asking ---------------------------------------------------------------- */

static void
ask(uint32_t i)
{
    if (i < book.count && book.items[i].op != NULL)
        drop_if_gone(i);
}

/* What a step donates was mostly made by the step before. */
static void
ask_newest(void)
{
    uint32_t *spare = before.items, room = before.capacity;
    for (uint32_t n = 0; n < before.count; n++)
        ask(before.items[n]);
    before = now;
    now.items = spare;
    now.capacity = room;
    now.count = 0;
}

void
ia_claims_sweep(int all)
{
    uint32_t turn = book.count / TURNS;
    if (turn < LEAST_ASKED)
        turn = LEAST_ASKED;
    end_dead();
    ask_newest();
    if (all || book.at >= book.count)
        book.at = 0;
    uint32_t end = all ? book.count : book.at + turn;
    while (book.at < end)
        ask(book.at++);
}

const ia_storage *
ia_claims_piece(PyObject *op, int i, PyObject **held)
{
    uint32_t at = ia_ptrmap_get(&book.of_op, (uintptr_t)op);
    if (at == NONE || (i == 0 && is_gone(op)))
        return NULL;
    for (int n = 0; at != NONE && n < i; n++)
        at = book.items[at].next_of_op;
    if (at == NONE)
        return NULL;
    const claim *c = &book.items[at];
    *held = c->list == NULL ? c->part : i == 0 ? c->list : NULL;
    return &c->piece;
}
