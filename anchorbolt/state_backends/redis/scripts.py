"""The steps of a transaction as Lua scripts. Each is constant text, atomic in Redis, and may be sent twice.

Each script gets the five keys of the namespace; the first arguments of a step are the caller's fence. A script that
refuses a step has written nothing and returns the metadata, from which `rules` raises the error. Data is never part of
a script's text. No script handles more than some thousand entries, and none passes more than 2,000 values to `unpack`.
Redis does not undo half a script, so everything that can fail (a wrong type, a damaged slice) comes before the first
write.
"""

from anchorbolt.state_backends.contract import CHECKSUM_FACTOR

FENCE_FIELDS = ("generation", "seq", "winner", "codec", "promoted", "entries")
"""The fields that a script reads from the key `$fence`, in this order."""

# The start of all scripts except `CLAIM`.
_COMMON = f"""
local data, prepare, txids, fence, attempts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local meta = redis.call('HMGET', fence, {str(FENCE_FIELDS)[1:-1]})
local committed = redis.call('HGET', txids, 'commit') or '-1'
local promoted = meta[5]
meta[7] = redis.call('HLEN', data)

local function checksum_after(before, checksum)
  return string.format('%.0f', (tonumber(before) * {CHECKSUM_FACTOR} + tonumber(checksum)) % 4294967296)
end
"""
_COMMON += """
local function run_in_parts(command, key, values, first)
  for i = first, #values, 2000 do
    redis.call(command, key, unpack(values, i, math.min(i + 1999, #values)))
  end
end

-- The record of a staged attempt; nil for a damaged record, or one of another format.
local function parse(record)
  local txid, base, generation, seq, slices, checksum, before, sealed =
    string.match(record, '^v2 (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) ([01])$')
  return txid and {
    txid = txid, base = base, generation = generation, seq = seq, fence = generation .. ' ' .. seq,
    slices = slices, checksum = checksum, before = before, sealed = sealed == '1'
  }
end

local function record_of(txid, base, origin, slices, checksum, before, sealed)
  return table.concat({'v2', txid, base, origin, slices, checksum, before, sealed}, ' ')
end

-- The record of an attempt as it is stored, the parsed record, and the key of the slices.
local function find(attempt)
  local known = redis.call('HGET', attempts, attempt)
  return known, known and parse(known), promoted == attempt and prepare or prepare .. '$' .. attempt
end

local function refused(known)
  return {'refused', meta, committed, known or false}
end

local function number(text)
  return string.len(text) < 16 and string.match(text, '^%d+$') and tonumber(text)
end

-- Whether a fence is higher than the caller's; true for a damaged one.
local function is_higher(generation, seq)
  generation, seq = number(generation), number(seq)
  local g, s = tonumber(ARGV[1]), tonumber(ARGV[2])
  return not generation or not seq or generation > g or (generation == g and seq > s)
end

-- Whether a higher fence has written here, or another program has removed or added entries or fields since the last
-- step, or an older version wrote the namespace.
local function may_not_write()
  local is_used = committed ~= '-1' or meta[7] > 0
  local is_whole = meta[1] and meta[2] and meta[4] and meta[6] and (meta[3] or committed == '-1')
  -- The step that stages a first slice also writes the codec.
  local is_lost = not meta[4] and redis.call('HLEN', attempts) > 0
  local is_altered = (is_used and not is_whole) or is_lost or tonumber(meta[6] or '0') ~= meta[7]
  return is_altered or is_higher(meta[1] or '0', meta[2] or '0')
end

local function has_other_codec(codec)
  return meta[4] and meta[4] ~= '' and meta[4] ~= codec
end

local function raise_fence(codec)
  redis.call('HSET', fence, 'generation', ARGV[1], 'seq', ARGV[2])
  if codec then redis.call('HSET', fence, 'codec', codec) end
end

local function keep_count()
  redis.call('HSET', fence, 'entries', redis.call('HLEN', data))
end

local function drop(attempt)
  redis.call('UNLINK', prepare .. '$' .. attempt)
  redis.call('HDEL', attempts, attempt)
end

-- Unpack the slices of `source` from number `first` to before `limit`, until they have 2,000 updates or two MiB.
local function unpacked(source, first, limit)
  local found, count, bytes = {}, 0, 0
  while first + #found < limit and count < 2000 and bytes < 2097152 do
    local packed = redis.call('HGET', source, first + #found)
    local updates = packed and cmsgpack.unpack(packed)
    local puts, deletes = updates and updates[1], updates and updates[2]
    if type(puts) ~= 'table' or type(deletes) ~= 'table' or #puts % 2 ~= 0 then
      error({err = 'ERR Bad data: slice ' .. first + #found .. ' is missing in ' .. source})
    end
    found[#found + 1] = {puts = puts, deletes = deletes}
    count, bytes = count + #puts / 2 + #deletes, bytes + #packed
  end
  return found
end

local function size_of(source)
  return redis.call('HLEN', source) - (redis.call('HGET', source, 'applied') and 1 or 0)
end

-- Return the number of unfolded slices. The field `unfolded` of an attempt's hash holds it, and the size of the hash
-- then. Each slice that was staged since then has added one field.
local function unfolded_in(source, slices)
  local unfolded, size = string.match(redis.call('HGET', source, 'unfolded') or '0 0', '^(%d+) (%d+)$')
  if not unfolded or size_of(source) ~= size + slices - unfolded then
    error({err = 'ERR Bad data: fields are missing in ' .. source})
  end
  return tonumber(unfolded)
end
"""


def _script(body: str) -> str:
    return _COMMON + body


# ARGV: the seq
CLAIM = """
local generation = redis.call('HINCRBY', KEYS[4], 'generation', 1)
redis.call('HSET', KEYS[4], 'seq', ARGV[1])
return generation
"""
"""Increment the generation, set the seq, and return the generation."""

# ARGV: nothing, or a fence
HEAD = _script("""
local staged = redis.call('HGETALL', attempts)
if ARGV[1] then
  if may_not_write() then return refused() end
  raise_fence()
  meta[1], meta[2] = ARGV[1], ARGV[2]
end
return {'ok', meta, committed, staged}
""")
"""Raise the fence if one is given, and read the metadata.

Returns {'ok', fields of `$fence` and number of entries, committed, attempts and records alternating}.
"""

# ARGV: 1 attempt, 2... keys
READ = _script("""
local known, record, source = find(ARGV[1])
if known then
  if not record then return {'ok', meta, committed, known, {}, {}} end
  local slices = tonumber(record.slices)
  local unfolded = unfolded_in(source, slices)
  local batch = unpacked(source, unfolded, slices)
  for _, staged in ipairs(batch) do
    local fields = {}
    for i = 1, #staged.puts, 2 do
      fields[i], fields[i + 1] = 'k' .. staged.puts[i], '+' .. staged.puts[i + 1]
    end
    for _, key in ipairs(staged.deletes) do
      fields[#fields + 1] = 'k' .. key
      fields[#fields + 1] = '-'
    end
    run_in_parts('HSET', source, fields, 1)
  end
  if #batch > 0 then
    unfolded = unfolded + #batch
    redis.call('HSET', source, 'unfolded', '')
    redis.call('HSET', source, 'unfolded', string.format('%d %d', unfolded, size_of(source) - slices + unfolded))
  end
  if unfolded < slices then return {'more'} end
end
local found, updates = {}, {}
for i = 2, #ARGV, 500 do
  local last = math.min(i + 499, #ARGV)
  found[#found + 1] = redis.call('HMGET', data, unpack(ARGV, i, last))
  if known then
    local fields = {}
    for j = i, last do fields[#fields + 1] = 'k' .. ARGV[j] end
    updates[#updates + 1] = redis.call('HMGET', source, unpack(fields))
  end
end
return {'ok', meta, committed, known, found, updates}
""")
"""Read keys, with the updates of an attempt if one is named.

Returns {'ok', the same metadata, committed, record of the attempt, lists of values, lists of updates}. The
lists of updates are empty without an attempt. An update is `-` for a delete or `+` and the value. The script returns
{'more'} if it must be run again, because slices of the attempt are not unfolded yet.
"""

# ARGV: 1 attempt, 2 `committed` or `staged`, 3 size of the page, 4 cursor
PAGE = _script("""
local known, record, source = find(ARGV[1])
local page
if ARGV[2] == 'staged' then
  if record then unfolded_in(source, record.slices) end
  page = redis.call('HSCAN', source, ARGV[4], 'MATCH', 'k*', 'COUNT', ARGV[3])
else
  page = redis.call('HSCAN', data, ARGV[4], 'COUNT', ARGV[3])
end
return {'ok', meta, committed, known, page[1], page[2]}
""")
"""Read a page of the committed data, or of the updates that `READ` has unfolded.

Returns the result of `READ`, but the last two elements are the next cursor, and fields and values alternating.
"""

# ARGV: 3 txid, 4 attempt, 5 base, 6 number of the slice, 7 its checksum, 8 codec, 9 the packed updates
STAGE = _script("""
local known, record, source = find(ARGV[4])
if may_not_write() or has_other_codec(ARGV[8]) or promoted or committed ~= ARGV[5] then return refused(known) end
redis.call('HLEN', source)
local origin, before = ARGV[1] .. ' ' .. ARGV[2], '0'
if known then
  if not record or record.txid ~= ARGV[3] or record.base ~= ARGV[5] or record.sealed then return refused(known) end
  local is_last = tonumber(ARGV[6]) == tonumber(record.slices) - 1
  if is_last and checksum_after(record.before, ARGV[7]) == record.checksum then
    raise_fence()
    return {'ok', record.slices, record.checksum}
  end
  if record.slices ~= ARGV[6] then return refused(known) end
  origin, before = record.fence, record.checksum
else
  if ARGV[6] ~= '0' then return refused(known) end
  local lower = {}
  local staged = redis.call('HGETALL', attempts)
  for i = 1, #staged, 2 do
    local other = parse(staged[i + 1])
    if not other then return refused(staged[i + 1]) end
    if other.fence ~= origin and not is_higher(other.generation, other.seq) then lower[#lower + 1] = staged[i] end
  end
  for _, attempt in ipairs(lower) do drop(attempt) end
end
redis.call('HSET', source, ARGV[6], ARGV[9])
raise_fence(ARGV[8])
local slices, checksum = string.format('%d', tonumber(ARGV[6]) + 1), checksum_after(before, ARGV[7])
redis.call('HSET', attempts, ARGV[4], record_of(ARGV[3], ARGV[5], origin, slices, checksum, before, '0'))
return {'ok', slices, checksum}
""")
"""Stage one slice, and return {'ok', slices, checksum} of the attempt so far."""

# ARGV: 3 attempt, 4 slices, 5 checksum
SEAL = _script("""
local known, record = find(ARGV[3])
if may_not_write() or not record then return refused(known) end
if record.slices ~= ARGV[4] or record.checksum ~= ARGV[5] then return refused(known) end
raise_fence()
redis.call('HSET', attempts, ARGV[3], record_of(
  record.txid, record.base, record.fence, record.slices, record.checksum, record.before, '1'))
return {'ok'}
""")
"""Close an attempt."""

# ARGV: 3 txid, 4 attempt
COMMIT = _script("""
local txid, attempt = ARGV[3], ARGV[4]
local known, record, source = find(attempt)
if may_not_write() then return refused(known) end
if committed == txid and not promoted then
  if meta[3] ~= attempt then return refused(known) end
  raise_fence()
  return {'done'}
end
if (promoted and promoted ~= attempt) or not record then return refused(known) end
if record.txid ~= txid or not record.sealed or record.base ~= committed then return refused(known) end
local applied = promoted and tonumber(redis.call('HGET', prepare, 'applied')) or 0
local slices = tonumber(record.slices)
local batch = unpacked(source, applied, slices)

-- If this user may not run HDEL, the script fails here and not half-way. Redis checks maxmemory only before a script's
-- first write; HDEL is exempt from it, so a full memory does not block a decided commit.
redis.call('HDEL', fence, 'nothing')
raise_fence()
if not promoted then
  for _, other in ipairs(redis.call('HKEYS', attempts)) do
    if other ~= attempt then drop(other) end
  end
end
local complete = applied + #batch == slices
if not promoted and not complete then
  redis.call('RENAME', source, prepare)
  redis.call('HSET', txids, 'prepare', txid)
  redis.call('HSET', fence, 'promoted', attempt)
end
for _, staged in ipairs(batch) do
  run_in_parts('HSET', data, staged.puts, 1)
  run_in_parts('HDEL', data, staged.deletes, 1)
end
keep_count()
if complete then
  redis.call('HSET', txids, 'prepare', txid, 'commit', txid)
  redis.call('HSET', fence, 'winner', attempt)
  redis.call('HDEL', fence, 'promoted')
  redis.call('UNLINK', source, attempts)
  return {'done'}
end
-- In the same script as the updates that it counts: a restart loses both or neither.
redis.call('HSET', prepare, 'applied', applied + #batch)
return {'more'}
""")
"""Apply the sealed attempt or a part of it. Returns {'done'}, or {'more'} if the script must be run again."""

ROLLBACK = _script("""
if may_not_write() or promoted then return refused() end
local staged = redis.call('HKEYS', attempts)
-- As above: dropping the attempts may free the memory that they have filled.
redis.call('HDEL', fence, 'nothing')
raise_fence()
for _, attempt in ipairs(staged) do
  drop(attempt)
end
return {'ok', #staged}
""")
"""Drop all attempts, and return {'ok', their number}."""

# ARGV: 3 codec, 4... entries
WRITE = _script("""
if may_not_write() or has_other_codec(ARGV[3]) then return refused() end
raise_fence(ARGV[3])
run_in_parts('HSET', data, ARGV, 4)
keep_count()
return {'ok'}
""")
"""Put entries directly into the committed data."""

REMOVE = _script("""
if may_not_write() then return refused() end
for _, attempt in ipairs(redis.call('HKEYS', attempts)) do
  drop(attempt)
end
redis.call('UNLINK', data, prepare, txids, attempts, fence)
return {'ok'}
""")
"""Remove the namespace."""
