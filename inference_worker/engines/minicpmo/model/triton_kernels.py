"""Triton programs: the operations of a decoder layer between its matrix products, in fewer launches than
torch, and products with quantised weights.

Values are read and written in the type of the tensors and computed in float32. No program is
specialised on a value that changes while serving, so each compiles once per network and type.
"""

import triton
import triton.language as tl


@triton.jit
def add_norm(hidden, update, weight, total, normed, eps, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One program per token: `total` = `hidden` + `update`, `normed` = RMSNorm of it (Zhang &
    Sennrich, 2019).
    """
    token = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < WIDTH
    before = tl.load(hidden + token * WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    change = tl.load(update + token * WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    stored = (before + change).to(total.dtype.element_ty)
    tl.store(total + token * WIDTH + at, stored, mask=inside)
    wide = stored.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide) / WIDTH + eps)
    gain = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + token * WIDTH + at, wide * scale * gain, mask=inside)


@triton.jit(do_not_specialize_on_alignment=["writes", "slots"])
def rotate_and_store(
    joint,
    query_norm,
    key_norm,
    cosines,
    sines,
    writes,
    slots,
    queries,
    entries,
    slot_stride,
    eps,
    QUERY_HEADS: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    HALF: tl.constexpr,
    NORMED: tl.constexpr,
):
    """One program per token and head of `joint` (tokens, queries + keys + values, DIM).

    Queries go to `queries`; keys and values go to the positions in `writes` of the token's slot in
    `entries`. Queries and keys are normed if NORMED, and rotated (Su et al., 2021; attention.py).
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    at = tl.arange(0, HALF)
    inside = at < DIM // 2
    source = joint + (token * (QUERY_HEADS + 2 * KEY_HEADS) + head) * DIM
    low = tl.load(source + at, mask=inside, other=0.0).to(tl.float32)
    high = tl.load(source + DIM // 2 + at, mask=inside, other=0.0).to(tl.float32)
    if head < QUERY_HEADS + KEY_HEADS:
        if NORMED:
            gains = key_norm
            if head < QUERY_HEADS:
                gains = query_norm
            scale = tl.rsqrt((tl.sum(low * low) + tl.sum(high * high)) / DIM + eps)
            low *= scale * tl.load(gains + at, mask=inside).to(tl.float32)
            high *= scale * tl.load(gains + DIM // 2 + at, mask=inside).to(tl.float32)
        angle = token * DIM + DIM // 2 + at
        cosine = tl.load(cosines + angle, mask=inside).to(tl.float32)
        sine = tl.load(sines + angle, mask=inside).to(tl.float32)
        turned = low * cosine - high * sine
        high = high * cosine + low * sine
        low = turned
    if head < QUERY_HEADS:
        target = queries + (token * QUERY_HEADS + head) * DIM
    else:
        position = tl.load(writes + token) * (2 * KEY_HEADS * DIM)
        target = entries + tl.load(slots + token) * slot_stride + position
        target += (head - QUERY_HEADS) * DIM
    tl.store(target + at, low, mask=inside)
    tl.store(target + DIM // 2 + at, high, mask=inside)


@triton.jit(
    do_not_specialize=["length", "split_length"],
    do_not_specialize_on_alignment=["positions", "slots", "starts", "sizes"],
)
def attend_split(
    queries,
    entries,
    positions,
    slots,
    starts,
    sizes,
    parts,
    weights,
    length,
    split_length,
    slot_stride,
    scale,
    GROUP: tl.constexpr,
    KEY_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    QUERIES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program per tile, key head and split of `split_length` entries: attention with split keys
    (Flash-Decoding).

    A tile has at most QUERIES queries of this head; the programs of empty ones do nothing. Each split
    writes its weighted mean to `parts` (tokens * KEY_HEADS, splits, GROUP, WIDE) and the logarithm of its
    weight to `weights`; a split that sees no entry writes no mean.
    """
    pair, split = tl.program_id(0), tl.program_id(1)
    tile, key_head = pair // KEY_HEADS, pair % KEY_HEADS
    count = tl.load(sizes + tile)
    if count == 0:
        return
    leader = tl.load(starts + tile).to(tl.int32)
    query = tl.arange(0, QUERIES)
    dim = tl.arange(0, WIDE)
    held = dim < DIM
    asked = query < count * GROUP
    token = leader + query // GROUP
    head = token * (KEY_HEADS * GROUP) + key_head * GROUP + query % GROUP
    full = asked[:, None] & held[None, :]
    wanted = tl.load(queries + head[:, None] * DIM + dim[None, :], mask=full, other=0.0)
    reach = tl.load(positions + token, mask=asked, other=-1).to(tl.int32)
    end = tl.minimum(tl.minimum((split + 1) * split_length, length), tl.max(reach) + 1)
    slot = entries + tl.load(slots + leader) * slot_stride + key_head * DIM
    mix = tl.zeros([QUERIES, WIDE], dtype=tl.float32)
    most = tl.full([QUERIES], float("-inf"), dtype=tl.float32)
    sums = tl.zeros([QUERIES], dtype=tl.float32)
    for start in range(split * split_length, end, BLOCK):
        entry = start + tl.arange(0, BLOCK)
        there = entry < end
        place = slot + entry.to(tl.int64)[:, None] * (2 * KEY_HEADS * DIM) + dim[None, :]
        kept = there[:, None] & held[None, :]
        keys = tl.load(place, mask=kept, other=0.0)
        values = tl.load(place + KEY_HEADS * DIM, mask=kept, other=0.0)
        scores = tl.dot(wanted, tl.trans(keys), input_precision="ieee") * scale
        seen = there[None, :] & (entry[None, :] <= reach[:, None])
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(most, tl.max(scores, axis=1))
        # For a query that sees no entry of this split, any finite pivot avoids a NaN.
        pivot = tl.where(higher == float("-inf"), 0.0, higher)
        shares = tl.exp(scores - pivot[:, None])
        fade = tl.exp(most - pivot)
        sums = sums * fade + tl.sum(shares, axis=1)
        mixed = tl.dot(shares.to(values.dtype), values, input_precision="ieee")
        mix = mix * fade[:, None] + mixed
        most = higher
    own = (token * KEY_HEADS + key_head) * tl.num_programs(1) + split
    place = own * GROUP + query % GROUP
    # An empty split is written as such. A NaN is not empty: it must reach the output and end its session.
    filled = sums != 0
    total = tl.where(filled, sums, 1.0)
    whole = filled[:, None] & held[None, :]
    tl.store(parts + place[:, None] * WIDE + dim[None, :], mix / total[:, None], mask=whole)
    weight = tl.where(filled, most + tl.log(total), float("-inf"))
    tl.store(weights + place, weight, mask=asked)


@triton.jit(do_not_specialize=["splits"])
def combine_splits(
    parts,
    weights,
    mixed,
    splits,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    WIDE: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """One program per token, key head and query of its group: combine the splits by weight, to
    (tokens, heads, DIM).
    """
    pair, query = tl.program_id(0), tl.program_id(1)
    dim = tl.arange(0, WIDE)
    held = dim < DIM
    split = tl.arange(0, SPLITS)
    place = (pair * splits + split) * GROUP + query
    weight = tl.load(weights + place, mask=split < splits, other=float("-inf"))
    # Every query sees the first entry, so at least one weight is finite.
    share = tl.exp(weight - tl.max(weight))
    made = (share != 0)[:, None] & held[None, :]
    part = tl.load(parts + place[:, None] * WIDE + dim[None, :], mask=made, other=0.0)
    mix = tl.sum(share[:, None] * part, axis=0) / tl.sum(share)
    tl.store(mixed + (pair * GROUP + query) * DIM + dim, mix, mask=held)


@triton.jit
def gate(joint, fed, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """One program per token and block: SiLU of the first half of (tokens, 2 * WIDTH) times the second."""
    token = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < WIDTH
    gates = tl.load(joint + token * 2 * WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    values = tl.load(joint + token * 2 * WIDTH + WIDTH + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(fed + token * WIDTH + at, gates / (1.0 + tl.exp(-gates)) * values, mask=inside)


@triton.jit(do_not_specialize=["tokens", "outputs"])
def multiply_packed(
    given,
    values,
    scales,
    zeros,
    made,
    tokens,
    outputs,
    INPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    BITS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program per COLUMNS outputs and ROWS tokens: `given` (tokens, INPUTS) times a quantised
    weight, to `made` (tokens, outputs).

    Integers of up to 8 bits and fp8 are exact in bfloat16. Each group of GROUP inputs is scaled after
    its product; if GROUPS is 1, all of them together.
    """
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    asked, inside = (row < tokens)[:, None], column < outputs
    wide = column.to(tl.int64)
    side: tl.constexpr = GROUP // 2
    full = tl.arange(0, GROUP)[None, :]
    half = tl.arange(0, side)[None, :]
    total = tl.zeros([ROWS, COLUMNS], dtype=tl.float32)
    for group in range(INPUTS // GROUP):
        own = wide * GROUPS + group
        source = given + row[:, None] * INPUTS + group * GROUP
        if BITS == 8:
            left = tl.load(source + full, mask=asked, other=0.0)
            place = values + wide[:, None] * INPUTS + group * GROUP + full
            # Outputs that do not exist are not stored, so their values do not matter.
            stored = tl.load(place, mask=inside[:, None]).to(left.dtype)
            part = tl.dot(left, tl.trans(stored), input_precision="ieee")
        else:
            first = tl.load(source + half, mask=asked, other=0.0)
            second = tl.load(source + side + half, mask=asked, other=0.0)
            place = values + wide[:, None] * (INPUTS // 2) + group * side + half
            stored = tl.load(place, mask=inside[:, None], other=0)
            zero = tl.load(zeros + own, mask=inside, other=0).to(tl.int8)[:, None]
            low = ((stored & 15).to(tl.int8) - zero).to(first.dtype)
            high = ((stored >> 4).to(tl.int8) - zero).to(first.dtype)
            part = tl.dot(first, tl.trans(low), input_precision="ieee")
            part += tl.dot(second, tl.trans(high), input_precision="ieee")
        if GROUPS > 1:
            part *= tl.load(scales + own, mask=inside, other=0.0).to(tl.float32)[None, :]
        total += part
    if GROUPS == 1:
        total *= tl.load(scales + wide, mask=inside, other=0.0).to(tl.float32)[None, :]
    target = made + row.to(tl.int64)[:, None] * outputs + wide[None, :]
    tl.store(target, total, mask=asked & inside[None, :])


@triton.jit
def unpack(
    values,
    scales,
    zeros,
    made,
    INPUTS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
    BITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program per output and BLOCK groups: a quantised weight to `made` (outputs, INPUTS)."""
    output = tl.program_id(0).to(tl.int64)
    group = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    side: tl.constexpr = GROUP // 2
    inside = group < INPUTS // GROUP
    own = output * GROUPS + group % GROUPS
    scale = tl.load(scales + own, mask=inside, other=0.0).to(tl.float32)[:, None]
    target = made + output * INPUTS + group[:, None] * GROUP
    if BITS == 8:
        at = tl.arange(0, GROUP)[None, :]
        place = values + output * INPUTS + group[:, None] * GROUP + at
        stored = tl.load(place, mask=inside[:, None]).to(tl.float32)
        tl.store(target + at, stored * scale, mask=inside[:, None])
    else:
        at = tl.arange(0, side)[None, :]
        place = values + output * (INPUTS // 2) + group[:, None] * side + at
        stored = tl.load(place, mask=inside[:, None], other=0)
        zero = tl.load(zeros + own, mask=inside, other=0).to(tl.float32)[:, None]
        low, high = (stored & 15).to(tl.float32), (stored >> 4).to(tl.float32)
        tl.store(target + at, (low - zero) * scale, mask=inside[:, None])
        tl.store(target + side + at, (high - zero) * scale, mask=inside[:, None])
