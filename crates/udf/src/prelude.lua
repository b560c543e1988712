-- Builds the environment that all calls of a function share, and returns it. It is read-only for them.
--
-- Arguments: the functions that are written in Rust.
-- Everything here runs under the hook, which interrupts it. What Lua's own library does in C is not
-- interrupted; so it is used only where its time is bounded by the size of its arguments.
-- Left out: load, require, os, io, debug, coroutine, collectgarbage, print, rawset, math.random, string.dump,
-- xpcall.

local scan, expand, check = ...

local error, next, type, select = error, next, type, select
local raw_pcall, raw_setmetatable, tostring = pcall, setmetatable, tostring
local concat, unpack = table.concat, table.unpack
local sub, raw_rep = string.sub, string.rep

-- A function that has exceeded its limits must not catch the error of that.
local function after_pcall(...)
  check()
  return ...
end

local function pcall(f, ...)
  return after_pcall(raw_pcall(f, ...))
end

-- Finalizers run without the hook, and so do closing methods after an error of the hook. The metatable is a
-- copy, because one that the body still has could get such a method later.
local function setmetatable(t, mt)
  if type(mt) ~= "table" then
    return raw_setmetatable(t, mt)
  end
  local own = {}
  for key, value in next, mt do
    own[key] = value
  end
  if own.__gc ~= nil or own.__close ~= nil then
    error("metatables with __gc or __close are not supported", 2)
  end
  if own.__metatable == nil then
    own.__metatable = mt
  end
  return raw_setmetatable(t, own)
end

local function rep(s, n, sep)
  if n > 0 and #s + (sep and #sep or 0) == 0 then
    return ""
  end
  return raw_rep(s, n, sep)
end

local function text(value, what)
  local kind = type(value)
  if kind == "number" then
    return tostring(value)
  elseif kind ~= "string" then
    error("bad argument " .. what .. " (string expected, got " .. kind .. ")", 3)
  end
  return value
end

-- The first position of a search, from an argument that may be negative.
local function position(init, length)
  init = init or 1
  if init < 0 then
    init = length + init + 1
  end
  return init < 1 and 1 or init
end

local function found(first, behind, ...)
  if first then
    return first, behind - 1, ...
  end
  return nil
end

local function find(s, p, init, plain)
  s, p = text(s, "#1 to 'find'"), text(p, "#2 to 'find'")
  init = position(init, #s)
  if init > #s + 1 then
    return nil
  end
  if plain then
    return found(scan(s, p, init, 0, "plain"))
  elseif sub(p, 1, 1) == "^" then
    return found(scan(s, sub(p, 2), init, 0, "anchored"))
  end
  return found(scan(s, p, init, 0, "captures"))
end

local function without_positions(first, _, ...)
  if first then
    return ...
  end
  return nil
end

local function match(s, p, init)
  s, p = text(s, "#1 to 'match'"), text(p, "#2 to 'match'")
  init = position(init, #s)
  if init > #s + 1 then
    return nil
  end
  if sub(p, 1, 1) == "^" then
    return without_positions(scan(s, sub(p, 2), init, 0, "anchored whole"))
  end
  return without_positions(scan(s, p, init, 0, "whole"))
end

local function gmatch(s, p)
  s, p = text(s, "#1 to 'gmatch'"), text(p, "#2 to 'gmatch'")
  local from, last = 1, 0
  local function advance(first, behind, ...)
    if not first then
      from = #s + 2
      return nil
    end
    from, last = behind, behind
    return ...
  end
  return function()
    if from > #s + 1 then
      return nil
    end
    return advance(scan(s, p, from, last, "whole"))
  end
end

local function gsub(s, p, repl, max)
  s, p = text(s, "#1 to 'gsub'"), text(p, "#2 to 'gsub'")
  local kind = type(repl)
  if kind == "number" then
    repl, kind = tostring(repl), "string"
  elseif kind ~= "string" and kind ~= "table" and kind ~= "function" then
    error("bad argument #3 to 'gsub' (string/function/table expected, got " .. kind .. ")", 2)
  end
  local how = "whole"
  if sub(p, 1, 1) == "^" then
    p, how = sub(p, 2), "anchored whole"
  end
  local out, count, from, last = {}, 0, 1, 0
  local function value_of(whole, first, ...)
    local value
    if kind == "string" then
      return expand(repl, whole, first, ...)
    elseif kind == "table" then
      value = repl[first]
    else
      value = repl(first, ...)
    end
    if not value then
      return whole
    elseif type(value) ~= "string" and type(value) ~= "number" then
      error("invalid replacement value (a " .. type(value) .. ")", 3)
    end
    return value
  end
  local function replace(first, behind, ...)
    if not first then
      return false
    end
    count = count + 1
    out[#out + 1] = sub(s, from, first - 1)
    out[#out + 1] = value_of(sub(s, first, behind - 1), ...)
    from, last = behind, behind
    return true
  end
  while (not max or count < max) and from <= #s + 1 do
    if not replace(scan(s, p, from, last, how)) or how ~= "whole" then
      break
    end
  end
  out[#out + 1] = sub(s, from)
  return concat(out), count
end

local function insert(t, ...)
  local count = select("#", ...)
  local length = #t
  if count == 1 then
    t[length + 1] = (...)
  elseif count == 2 then
    local at, value = ...
    if at < 1 or at > length + 1 then
      error("bad argument #2 to 'insert' (position out of bounds)", 2)
    end
    for i = length, at, -1 do
      t[i + 1] = t[i]
    end
    t[at] = value
  else
    error("wrong number of arguments to 'insert'", 2)
  end
end

local function remove(t, at)
  local length = #t
  if at == nil then
    at = length
  elseif length + 1 ~= at and (at < 1 or at > length + 1) and not (length == 0 and at == 0) then
    error("bad argument #2 to 'remove' (position out of bounds)", 2)
  end
  local value = t[at]
  for i = at, length - 1 do
    t[i] = t[i + 1]
  end
  if at <= length then
    t[length] = nil
  else
    t[at] = nil
  end
  return value
end

local function move(from, first, last, at, to)
  to = to or from
  if at > last or at <= first or to ~= from then
    for i = 0, last - first do
      to[at + i] = from[first + i]
    end
  else
    for i = last - first, 0, -1 do
      to[at + i] = from[first + i]
    end
  end
  return to
end

-- Merges runs of doubling length between the table and a copy.
local function sort(t, less)
  less = less or function(a, b) return a < b end
  local length = #t
  local from, to = {}, {}
  for i = 1, length do
    from[i] = t[i]
  end
  local run = 1
  while run < length do
    for start = 1, length, 2 * run do
      local a, b = start, start + run
      local a_end, b_end = b, b + run
      if a_end > length + 1 then a_end = length + 1 end
      if b_end > length + 1 then b_end = length + 1 end
      for i = start, b_end - 1 do
        if a < a_end and (b >= b_end or not less(from[b], from[a])) then
          to[i] = from[a]
          a = a + 1
        else
          to[i] = from[b]
          b = b + 1
        end
      end
    end
    from, to = to, from
    run = 2 * run
  end
  for i = 1, length do
    t[i] = from[i]
  end
end

-- A table that shows another one and cannot be changed.
local function read_only(content)
  return raw_setmetatable({}, {
    __index = content,
    __newindex = function() error("the standard library cannot be changed", 2) end,
    __metatable = false,
  })
end

local function copy(from, names)
  local to = {}
  for _, name in ipairs(names) do
    to[name] = from[name]
  end
  return to
end

local strings = copy(string, {
  "byte", "char", "format", "len", "lower", "pack", "packsize", "reverse", "sub", "unpack", "upper",
})
strings.find, strings.gmatch, strings.gsub, strings.match, strings.rep = find, gmatch, gsub, match, rep

local tables = { concat = concat, insert = insert, move = move, pack = table.pack, remove = remove,
  sort = sort, unpack = unpack }

local maths = copy(math, {
  "abs", "acos", "asin", "atan", "ceil", "cos", "deg", "exp", "floor", "fmod", "huge", "log", "max",
  "maxinteger", "min", "mininteger", "modf", "pi", "rad", "sin", "sqrt", "tan", "tointeger", "type", "ult",
})

-- Methods of strings: ("a"):upper().
local of_strings = getmetatable("")
of_strings.__index = strings
of_strings.__metatable = false

local globals = copy(_G, {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "rawequal", "rawget", "rawlen", "select",
  "tonumber", "tostring", "type", "_VERSION",
})
globals.pcall, globals.setmetatable = pcall, setmetatable
globals.string, globals.table = read_only(strings), read_only(tables)
globals.math, globals.utf8 = read_only(maths), read_only(copy(utf8, {
  "char", "charpattern", "codepoint", "codes", "len", "offset",
}))
return globals
