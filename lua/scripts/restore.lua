-- Merges into keys what was reported of them to a process, after their server may have forgotten. Or resets keys, so that what
-- was reported of them before is not merged into them any more.
-- KEYS      one per identifier
-- ARGV[1]   now, slack_ms; how many limits; the policy
-- ARGV[..]  per key when its value was reported, and that value; none: the keys are reset
-- returns   as `read`, what the keys hold then; with the flag `restored` if anything of what was reported was missing there
local unpack, pack, args = struct.unpack, struct.pack, ARGV[1]
local now, slack_ms, limit_count, part = unpack('<i8i8B', args)
--[[ prelude ]]
local sub, floor, min, max = string.sub, math.floor, math.min, math.max
local MEMORY, RESET, UNLOCKED, LOCK = 3600000000, 'reset\0\0\0', 'unlocked', 'penalty\0' -- for how long (us) a reset is known, and reported values count

-- The cells of a history and its newest as (at, count), if a charge can have written them.
local function counts_of(record)
  local cells, before = {}, -1
  local sum = record.b
  for place = 1, #record.cells, CELL do
    local at, counted = unpack('<i8i8', record.cells, place)
    if at <= before or at >= record.a or counted < 0 then return end
    cells[#cells + 1], before, sum = {at, counted}, at, sum + counted
  end
  if sum ~= record.c then return end
  cells[#cells + 1] = {record.a, record.b}
  return cells
end

-- What algorithms with a history share: of each cell the larger count. `reach`: how far behind the newest cell one counts.
-- Beside cells that no charge can have written, the larger total is chosen.
local function history_merged(own, reported, reach)
  local theirs, ours = counts_of(reported), own and counts_of(own) or {}
  if not theirs then return end
  if own and #ours == 0 then
    if own.c >= reported.c then return end
    own = nil
  end
  local merged, i, k, total = {}, 1, 1, 0
  local newest = max(reported.a, own and own.a or 0)
  while ours[i] or theirs[k] do
    local one, other = ours[i], theirs[k]
    local at = min(one and one[1] or EXACT, other and other[1] or EXACT)
    local counted = 0
    if one and one[1] == at then counted, i = one[2], i + 1 end
    if other and other[1] == at then counted, k = max(counted, other[2]), k + 1 end
    if at >= newest - reach and (counted > 0 or at == newest) then
      merged[#merged + 1], total = {at, counted}, total + counted
    end
  end
  if total >= EXACT - 1 then return newest, EXACT - 1, EXACT - 1, '' end
  local first = max(1, #merged - 9999)
  for place = 1, first - 1 do merged[place + 1][2] = merged[place + 1][2] + merged[place][2] end
  local cells = {}
  for place = first, #merged - 1 do cells[#cells + 1] = pack('<i8i8', merged[place][1], merged[place][2]) end
  return newest, merged[#merged][2], total, table.concat(cells)
end

-- Of each instant the larger hold, and no more of them than `hold` keeps.
local function holds_merged(own, reported)
  local all, held = {}, {}
  for _, cells in ipairs({own, reported}) do
    for place = 1, #cells, CELL do
      local till, amount = unpack('<i8i8', cells, place)
      if not held[till] then all[#all + 1] = till end
      held[till] = max(held[till] or 0, amount)
    end
  end
  table.sort(all)
  while #all > 8 do -- the two oldest become one at the later time
    local oldest = table.remove(all, 1)
    held[all[1]] = min(held[all[1]] + held[oldest], EXACT - 1)
  end
  local holds = ''
  for _, till in ipairs(all) do holds = holds .. pack('<i8i8', till, held[till]) end
  return holds
end

-- The later one: of the time of a reset, or of a lock by hand.
local function later(own, reported)
  if reported.a > now then return end
  if own and own.a >= reported.a then return end
  return reported.a, 0, 0, '', own and max(own.expires, reported.expires) or reported.expires
end

--[[ merges ]]

-- The records of a value by their tags, and those tags in order. Of a record that cannot count nothing but its place is set.
local function records_of(value)
  local records, order, place = {}, {}, HEAD + 1
  while place < #value do
    local tag, size, expires = unpack('<c8I4i8', value, place)
    local record, behind = {place = place, behind = place + RECORD + size}, place + RECORD + size
    if expires > now and expires < EXACT and size >= STATE and (size - STATE) % CELL == 0 then
      local a, b, c = unpack('<i8i8i8', value, place + RECORD)
      if min(a, b, c) >= 0 and max(a, b, c) < EXACT then
        record.counts, record.expires, record.a, record.b, record.c = true, expires, a, b, c
        record.cells = sub(value, place + WHOLE, behind - 1)
      end
    end
    if not records[tag] then
      records[tag], order[#order + 1] = record, tag
    end
    place = behind
  end
  return records, order
end

-- When a value's key was created; and a mark in the bits above, of when it was last restored as it was lost.
local function incarnation_of(value)
  local low, high = unpack('<I4I4', value)
  return low + high % 2^21 * 2^32, floor(high / 2^21)
end

-- A reported value, if it is one.
local function checked(value)
  local stop, place = #value + 1, HEAD + 1
  if #value < HEAD or #value > 4096 then return end
  --[[ check_value ]]
  local born = incarnation_of(value)
  if last == stop and born > 0 and born < EXACT then return value end
end

local merges, limits = {[RESET] = later, [UNLOCKED] = later}, {}
for at = part, part + LIMIT * limit_count - 1, LIMIT do
  local algorithm, tag, numbers = unpack('<Bc8', args, at)
  merges[tag] = function(own, reported) return merged_of[algorithm](numbers, own, reported) end
  limits[#limits + 1] = tag
end

-- When a lock was last set or lifted by hand, as either value says.
local function done_by_hand(own, reported)
  local ours, theirs = own[UNLOCKED], reported[UNLOCKED]
  return max(ours and ours.counts and ours.a or 0, theirs and theirs.counts and theirs.a <= now and theirs.a or 0)
end

-- A value's lock after that, which ended it; its level is remembered for as long after the end as before.
local function lock_of(records, done)
  local lock = records[LOCK]
  if not lock or not lock.counts or lock.cells ~= '' or lock.b > lock.expires then return end
  if lock.a >= min(MAX_TIME, lock.expires) then return end
  local level, memory = floor(lock.c / 2), lock.expires - lock.b
  if lock.a < done then return {start = done, finish = done, by_hand = 1, level = level, memory = memory} end
  return {start = lock.a, finish = lock.b, by_hand = lock.c % 2, level = level, memory = memory}
end

-- The later end, the higher level, the longer memory of it; and when it is forgotten.
local function lock_merged(own, reported)
  local done = done_by_hand(own, reported)
  local one, other = lock_of(own, done), lock_of(reported, done)
  if other and reported[LOCK].a > now then other = nil end
  one, other = one or other, other or one
  if not one then return '', 0 end
  local by_hand = max(one.by_hand, other.by_hand)
  if one.finish > other.finish then by_hand = one.by_hand elseif other.finish > one.finish then by_hand = other.by_hand end
  local finish, mark = max(one.finish, other.finish), 2 * max(one.level, other.level) + by_hand
  local forgotten = min(finish + max(one.memory, other.memory), EXACT - 1)
  if forgotten <= now then return '', 0 end
  return LOCK .. pack('<I4i8i8i8i8', STATE, forgotten, max(one.start, other.start), finish, mark), forgotten
end

-- Whether a value was reset after it was reported. What is reported after a reset says so as long as that is known.
local function precedes_reset(value, reported_at, reported)
  local reset, known = records_of(value)[RESET], records_of(reported)[RESET]
  if not reset or not reset.counts then return false end
  return reset.a >= reported_at and not (known and known.counts and known.a >= reset.a)
end

-- A value with what was reported merged into it, and when the last of its records expires.
local function merged_value(value, reported)
  local own, own_order = records_of(value)
  local theirs, their_order = records_of(reported)
  local written, parts, latest = {[LOCK] = true}, {}, 0
  local function append(tag)
    if written[tag] then return end
    written[tag] = true
    local record, other = own[tag], theirs[tag]
    local from = record and value or reported
    local a, b, c, cells, expires
    if other and other.counts and merges[tag] then
      a, b, c, cells, expires = merges[tag](record and record.counts and record or nil, other)
    end
    if a then
      parts[#parts + 1] = tag .. pack('<I4i8i8i8i8', STATE + #cells, expires, a, b, c) .. cells
    elseif record or other and other.counts and not merges[tag] then
      local kept = record or other
      parts[#parts + 1], expires = sub(from, kept.place, kept.behind - 1), kept.counts and kept.expires or 0
    end
    if expires and expires > latest then latest = expires end
  end
  for _, tag in ipairs(limits) do append(tag) end
  for _, tag in ipairs(own_order) do append(tag) end
  for _, tag in ipairs(their_order) do append(tag) end
  local lock, forgotten = lock_merged(own, theirs)
  parts[#parts + 1], latest = lock, max(latest, forgotten)
  local born, reported_mark = incarnation_of(reported)
  local own_born, mark = EXACT
  if value ~= '' then own_born, mark = incarnation_of(value) end
  if own_born > born then -- the key was lost: whoever knows of it is to notice
    mark = (reported_mark + now % 1022) % 1023 + 1 -- another than the reported one
  elseif own_born > 0 then
    born = own_born
  end
  return pack('<I4I4', born % 2^32, floor(born / 2^32) + mark * 2^21) .. table.concat(parts), latest
end

local flags, answer = '\8', pack('<i8', now)
for k = 1, #KEYS do
  local key, reported_at, reported = KEYS[k], 0
  --[[ get_value ]]
  --[[ parse_value ]]
  if #ARGV == 1 then
    --[[ new_value ]]
    value = created_at .. RESET .. pack('<I4i8i8i8i8', STATE, now + MEMORY, now, 0, 0)
    call('SET', key, value, 'PX', MEMORY / 1000 + slack_ms)
  elseif ARGV[1 + k] and #ARGV[1 + k] >= HEAD then
    reported_at, reported = unpack('<i8', ARGV[1 + k]), checked(sub(ARGV[1 + k], HEAD + 1))
    if reported and reported_at >= now - MEMORY and not precedes_reset(value, reported_at, reported) then
      local merged, latest = merged_value(value, reported)
      if merged ~= found and #merged <= 2^23 and latest > now then
        value, flags = merged, '\72'
        call('SET', key, value, 'PX', math.ceil((latest - now) / 1000) + slack_ms)
      end
    end
  end
  answer = answer .. (k < #KEYS and pack('<I4', #value) or '') .. value
end
return flags .. answer
