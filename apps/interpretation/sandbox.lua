-- The environment of scripts. Called once for each process, with what only the host has; returns the function that runs scripts.
local kube, seconds, compiled_most = ...

local real = {
  clock = os.clock, time = os.time, date = os.date, error = error, load = loadstring, pcall = pcall, setfenv = setfenv,
  setmetatable = setmetatable, sethook = debug.sethook, tostring = tostring, type = type, find = string.find,
  collectgarbage = collectgarbage,
}
local STEPS = 1000 -- instructions between two looks at the clock
local KEPT = 64 * 1024 -- KiB that may be in use after a call, and that the next script cannot have
local deadline = 0

local function look_at_clock()
  if real.clock() > deadline then
    real.error("the script has used its " .. seconds .. " s of processor time", 0)
  end
end

local function read_only(library)
  return real.setmetatable({}, {
    __index = library,
    __newindex = function() real.error("libraries cannot be changed", 2) end,
    __metatable = false,
  })
end

local function refused(name)
  return function() real.error("the function " .. name .. " is not available to scripts", 2) end
end

string.dump = refused("string.dump")
local library = read_only({
  resourceAdd = function(...)
    local ok, found = kube("resourceAdd", select("#", ...), ...)
    if not ok then real.error(found, 2) end
    return found
  end,
  getResourceQuantity = function(...)
    local ok, found = kube("getResourceQuantity", select("#", ...), ...)
    if not ok then real.error(found, 2) end
    return found
  end,
  accuratePodRequirements = function(...)
    local ok, found = kube("accuratePodRequirements", select("#", ...), ...)
    if not ok then real.error(found, 2) end
    return found
  end,
  getPodDependencies = function(...)
    local ok, found = kube("getPodDependencies", select("#", ...), ...)
    if not ok then real.error(found, 2) end
    return found
  end,
})

local base = {
  assert = assert, error = error, ipairs = ipairs, next = next, pairs = pairs, pcall = pcall, select = select,
  tonumber = tonumber, tostring = tostring, type = type, unpack = unpack, xpcall = xpcall, _VERSION = _VERSION,
  print = function() end,
  string = read_only(string), table = read_only(table), math = read_only(math),
  os = read_only({ time = real.time, date = real.date, clock = real.clock }),
  require = function(name)
    if name == "kube" then return library end
    real.error("there is no library " .. real.tostring(name) .. "; scripts can require \"kube\"", 2)
  end,
}
for _, name in ipairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal", "rawget", "rawset",
  "setfenv", "setmetatable", "module", "newproxy",
}) do
  base[name] = refused(name)
end

-- Scripts reach the string library by methods of texts as well. Everything else of the host is out of their reach.
for _, name in ipairs({ "io", "debug", "package", "python", "coroutine", "dofile", "loadfile", "newproxy" }) do
  _G[name] = nil
end

local compiled, count = {}, 0
local no_globals = {}

local function is_much_in_use()
  return real.collectgarbage("count") > KEPT
end

-- Frees what a script has used. Lua 5.1 does not do so when memory is short: it would refuse the next script memory.
local function clean_up(chunk)
  real.sethook()
  real.setfenv(chunk, no_globals)
  if is_much_in_use() then real.collectgarbage() end
  if is_much_in_use() then
    compiled, count = {}, 0
    real.collectgarbage()
  end
end

local function run(chunk, name, ...)
  local env = real.setmetatable({}, { __index = base, __metatable = false })
  env._G = env
  real.setfenv(chunk, env)
  deadline = real.clock() + seconds
  real.sethook(look_at_clock, "", STEPS)
  local ok, failure = real.pcall(chunk)
  if not ok then return false, failure end
  local entry = env[name]
  if real.type(entry) ~= "function" then return false, "the script has no function " .. name end
  return real.pcall(entry, ...)
end

-- Returns true and up to two results of a function of a script, or false and why it failed.
return function(text, name, ...)
  local chunk = compiled[text]
  if chunk == nil then
    if real.find(text, "^\27") then return false, "the script is not text" end
    local failure
    chunk, failure = real.load(text, "=script")
    if chunk == nil then return false, failure end
    if count >= compiled_most then compiled, count = {}, 0 end
    compiled[text], count = chunk, count + 1
  end
  local ok, first, second = run(chunk, name, ...)
  clean_up(chunk)
  if ok then return true, first, second end
  if real.type(first) ~= "string" then first = "the script raised a value that is not text" end
  return false, first
end
