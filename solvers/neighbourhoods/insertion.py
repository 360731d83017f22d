"""Where one request fits beside the others, compiled.

All amounts are 64-bit integers. `room[r, t]` is what slot t still offers of resource r: DEVICE in blocks, the others in
tokens or requests. A request is a list of pieces, rows (kind, begin, end, resident, tokens) for the slots begin to end
- 1: `resident` is the KV after the growth of the first slot, `tokens` those processed in each. A decode grows by one
token a slot; HELD and HOSTED only keep KV.
"""

from typing import Any, NamedTuple

import numpy as np

from kvcore.compiled import compiled

DEVICE, HOST, TOKENS, PREFILL_TOKENS, REQUESTS = range(5)
PREFILL, DECODE, HELD, HOSTED = range(4)
FIRST, PRESERVE, DISCARD, SWAP, FREE = range(5)
"""What came before a segment: the arrival, or a call with its handling."""
KIND, BEGIN, END, RESIDENT, WORK = range(5)
ZERO, ONE = np.int64(0), np.int64(1)
"""Arguments of kernels: a plain 0 has a type of its own, with one more compilation."""


class Grid(NamedTuple):
    """The slots, and the machine's limits in each: constant during a search."""

    slots: int
    block: int
    chunked: int
    pause: int
    most_parts: int
    """Parts of a prefill."""
    evict: int


class Scratch(NamedTuple):
    """Room for the insertion of one request: `parts` of a prefill, `spare` pieces, and numbers by segment.

    The numbers are the first slot, the slot after the last, and the first piece.
    """

    parts: Any
    first_slot: Any
    end_slot: Any
    first_piece: Any
    spare: Any


@compiled
def use(room, block, pieces, count, sign):
    """Take the needs of `pieces` from the room (sign -1), or give them back (sign 1)."""
    for p in range(count):
        kind, begin, end = pieces[p, KIND], pieces[p, BEGIN], pieces[p, END]
        resident, tokens = pieces[p, RESIDENT], pieces[p, WORK]
        for t in range(begin, end):
            if kind == HOSTED:
                room[HOST, t] += sign * resident
            else:
                grown = resident + t - begin if kind == DECODE else resident
                room[DEVICE, t] += sign * ((grown + block - 1) // block)
            if kind in (PREFILL, DECODE):
                room[TOKENS, t] += sign * tokens
                room[REQUESTS, t] += sign
            if kind == PREFILL:
                room[PREFILL_TOKENS, t] += sign * tokens


@compiled
def fit(room, grid, ready, earliest, context, decode, before, parts):
    """Return the first slot from `earliest` on in which a segment can generate its first token, and the parts.

    The `context` is known then, `before` tokens of it are resident; the rest is processed in `parts`, rows (slot,
    tokens) from the last to the first, as late as possible and not before `ready`. (-1, 0): nowhere.
    """
    slots, block = grid.slots, grid.block
    first = earliest
    fine_from, fine_to = first, first  # slots that suit this first slot, and so any later one: less is resident then
    while first + decode <= slots:
        t = first + decode - 1
        while t >= first:
            if fine_from <= t < fine_to:
                t = fine_from - 1
            elif room[DEVICE, t] * block < context + t - first or room[TOKENS, t] < 1 or room[REQUESTS, t] < 1:
                break
            else:
                t -= 1
        if t < first:
            found = fill(room, grid, ready, first, context, before, parts)
            if found:
                return first, found
            fine_from, fine_to = first, first + decode
            first += 1
            continue
        fine_from, fine_to = t + 1, first + decode
        room_now = room[DEVICE, t] * block
        never = room_now < context or room[TOKENS, t] < 1 or room[REQUESTS, t] < 1
        first = t + 1 if never else context + t - room_now
    return -1, 0


@compiled
def fill(room, grid, ready, first, context, before, parts):
    """Split the tokens processed up to slot `first` into parts, as late as possible; return the count (0: no way)."""
    block, chunked, pause = grid.block, grid.chunked, grid.pause
    missing, t, found = context - before, first, 0
    while missing > 0:
        if t < ready or found == grid.most_parts or room[DEVICE, t] * block < before + missing:
            return 0
        part = min(missing, room[TOKENS, t])
        if t == first and (missing == 1 or (room[PREFILL_TOKENS, t] < 1 and chunked)) and before + missing > 1:
            part = min(part, 1)  # a decode: one token, on what is resident
        else:
            part = min(part, room[PREFILL_TOKENS, t])
        if room[REQUESTS, t] < 1:
            part = 0
        if part > 0:
            parts[found, 0], parts[found, 1] = t, part
            found += 1
            missing -= part
        if (part <= 0 and (not pause or t == first)) or (missing > 0 and not chunked):
            return 0
        t -= 1
    return found


@compiled
def hold(room, block, handling, kept, begin, end, most, host_first, pieces, count):
    """Keep `kept` tokens over the slots `begin` to `end` - 1; return the pieces' count and the blocked slot (-1: none).

    At most `most` slots on the device where the handling is free.
    """
    blocks = (kept + block - 1) // block
    place, opened, blocked_host = -1, count, -1
    for t in range(begin, end):
        on_device = room[DEVICE, t] >= blocks and (handling != FREE or most > 0)
        on_host = handling != PRESERVE and room[HOST, t] >= kept
        if not on_host and blocked_host < 0:
            blocked_host = t
        if handling == SWAP:
            now = HELD if place == HELD or not on_host else HOSTED
        elif place == -1:
            now = HOSTED if on_host and (host_first or not on_device) else HELD
        elif place == HELD:
            now = HELD if on_device else HOSTED
        else:
            now = HOSTED if on_host else HELD
        if (now == HELD and not on_device) or (now == HOSTED and not on_host):
            return opened, blocked_host if handling == SWAP else t
        most -= now == HELD
        if now == place:
            pieces[count - 1, END] = t + 1
            continue
        if count == pieces.shape[0]:
            return opened, t
        pieces[count, KIND], pieces[count, BEGIN], pieces[count, END] = now, t, t + 1
        pieces[count, RESIDENT], pieces[count, WORK] = kept, 0
        place = now
        count += 1
    return count, -1


@compiled
def write(pieces, count, first, context, decode, before, parts, found):
    """Append the pieces of a segment; return their count (-1: too many)."""
    if count + 2 * found + 1 > pieces.shape[0]:
        return -1
    resident = before
    for p in range(found - 1, -1, -1):
        t, part = parts[p, 0], parts[p, 1]
        resident += part
        if p == 0 and part == 1 and resident > 1:
            break  # the first token comes of a decode
        count = _append(pieces, count, PREFILL, t, t + 1, resident, part)
        if p > 0 and parts[p - 1, 0] > t + 1:
            count = _append(pieces, count, HELD, t + 1, parts[p - 1, 0], resident, 0)
    begin = first if parts[0, 1] == 1 and context > 1 else first + 1
    if begin < first + decode:
        count = _append(pieces, count, DECODE, begin, first + decode, context + begin - first, 1)
    return count


@compiled
def _append(pieces, count, kind, begin, end, resident, tokens):
    pieces[count, KIND], pieces[count, BEGIN], pieces[count, END] = kind, begin, end
    pieces[count, RESIDENT], pieces[count, WORK] = resident, tokens
    return count + 1


@compiled
def copy_pieces(pieces, count, copied):
    """Copy the first pieces: assigning slices would take seconds more to compile."""
    for p in range(count):
        for field in range(pieces.shape[1]):
            copied[p, field] = pieces[p, field]


@compiled
def fit_runs(room, grid, ready, context, decode, least, parts, pieces):
    """Lay out a segment in runs with evictions between them, each as early as it fits from `ready` on.

    Nothing is resident at first. A run goes on as long as it fits, and has at least `least` tokens, except the last.
    Return the slot after the last token, and the count of pieces (-1, 0: no way).
    """
    done, count, first = 0, 0, ready
    while done < decode:
        length, found = 0, 0
        while first + min(least, decode - done) <= grid.slots:
            length = 0
            while length < decode - done and first + length < grid.slots:
                t, resident = first + length, context + done + length
                if room[DEVICE, t] * grid.block < resident or room[TOKENS, t] < 1 or room[REQUESTS, t] < 1:
                    break
                length += 1
            if length >= min(least, decode - done):
                found = fill(room, grid, ready, first, context + done, ZERO, parts)
                if found:
                    break
            first += 1
        if not found:
            return -1, 0
        count = write(pieces, count, first, context + done, length, ZERO, parts, found)
        if count < 0:
            return -1, 0
        done += length
        ready = first + length + 1  # no work in the slot of an eviction
        first = ready
    return ready - 1, count


@compiled
def insert(room, grid, arrival, segments, most, host_first, run, pieces, scratch):
    """Put a request where it is done early, segment by segment; return the count of pieces (0: it does not fit).

    `segments` are rows (context, decode, duration of the call before, tokens not yet processed if KV was kept, handling
    of that call). KV is kept over a call, at most `most` slots on the device, or dropped, whichever is earlier. With
    `run` above 0, evictions cut a segment into runs of at least `run` tokens if it ends earlier so.
    """
    parts, first_slot, end_slot, first_piece, spare = scratch
    k, last = 0, segments.shape[0]
    for s in range(last):
        first_slot[s] = 0
    first_piece[0] = 0
    while k < last:
        context, decode, handling = segments[k, 0], segments[k, 1], segments[k, 4]
        over = arrival if k == 0 else end_slot[k - 1]
        ready = over + segments[k, 2]
        first, count, blocked = -1, 0, -1
        if handling in (PRESERVE, SWAP, FREE):
            kept = context - segments[k, 3]
            first, found = fit(room, grid, ready, max(ready, first_slot[k]), context, decode, kept, parts)
            if first >= 0:
                begin = parts[found - 1, 0]
                count, blocked = hold(
                    room, grid.block, handling, kept, over, begin, most, host_first, pieces, first_piece[k]
                )
                if blocked >= 0:
                    first = -1
                    blocked = -1 if handling == FREE else blocked  # it can be dropped instead
                else:
                    count = write(pieces, count, first, context, decode, kept, parts, found)
        if handling in (FIRST, DISCARD, FREE) and first != max(ready, first_slot[k]):
            again, found = fit(room, grid, ready, max(ready, first_slot[k]), context, decode, ZERO, parts)
            if again >= 0 and (first < 0 or again < first):
                first = again
                count = write(pieces, first_piece[k], first, context, decode, ZERO, parts, found)
        if first >= 0 and count < 0:
            return 0
        end_slot[k] = first + decode
        if run and handling != SWAP and not first_slot[k]:
            preserved = handling == PRESERVE
            end, pieces_now = fit_runs(room, grid, ready + preserved, context, decode, run, parts, spare)
            if end >= 0 and (first < 0 or end < end_slot[k]):
                begin, stays = first_piece[k], -1
                if preserved:
                    kept = context - segments[k, 3]
                    begin, stays = hold(
                        room, grid.block, handling, kept, over, ready, most, host_first, pieces, first_piece[k]
                    )
                if stays < 0 and begin + pieces_now <= pieces.shape[0]:
                    copy_pieces(spare, pieces_now, pieces[begin:])
                    first, count, end_slot[k] = end - decode, begin + pieces_now, end
        if first >= 0:
            first_slot[k] = first
            k += 1
            first_piece[k] = count
        elif blocked >= 0:
            first_slot[k - 1] = blocked + 1 - segments[k - 1, 1]
            first_slot[k] = 0
            k -= 1
        else:
            return 0
    return first_piece[last]
