//! Bodies in Lua: values in both directions, what a body finds, and what it cannot do.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use catalog::{Program, ScriptEngine, UserFunction};
use model::CqlType;
use model::types::{UdtField, UserType};
use proptest::prelude::*;

use crate::{Limits, LuaEngine};

fn ty(text: &str) -> CqlType {
    let udt = |name: &str| {
        (name == "pair").then(|| {
            let field = |name: &str, field_type| UdtField { name: name.to_string(), field_type };
            CqlType::udt(UserType {
                keyspace: "ks".to_string(),
                name: "pair".to_string(),
                fields: vec![field("a", CqlType::Int), field("b", CqlType::Text)],
            })
        })
    };
    CqlType::from_cql(text, &udt).unwrap()
}

fn compile(arguments: &[(&str, &str)], returns: &str, body: &str) -> Result<Arc<dyn Program>, String> {
    let mut function = UserFunction::new("ks", "f", ty(returns), "lua", body);
    for (name, argument) in arguments {
        function = function.argument(name, ty(argument));
    }
    LuaEngine::new(Limits::default()).compile(&function)
}

/// Calls a function with CQL literals; `null` is null.
fn call(arguments: &[(&str, &str, &str)], returns: &str, body: &str) -> Result<String, String> {
    let types: Vec<_> = arguments.iter().map(|(name, ty, _)| (*name, *ty)).collect();
    let program = compile(&types, returns, body)?;
    let values = arguments.iter().map(|(_, argument, literal)| match *literal {
        "null" => None,
        literal => Some(ty(argument).bytes_of(literal).unwrap()),
    });
    let values: Vec<Option<Vec<u8>>> = values.collect();
    let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
    let result = program.call(&values)?;
    Ok(result.map_or("null".to_string(), |bytes| {
        ty(returns).validate(&bytes).unwrap();
        ty(returns).text_of(&bytes)
    }))
}

#[track_caller]
fn check(arguments: &[(&str, &str, &str)], returns: &str, body: &str, expected: &str) {
    assert_eq!(call(arguments, returns, body).as_deref(), Ok(expected), "{body}");
}

/// Evaluates an expression of Lua as a text.
#[track_caller]
fn evaluates(expression: &str, expected: &str) {
    check(&[], "text", &format!("return {expression}"), &format!("'{expected}'"));
}

#[track_caller]
fn fails(returns: &str, body: &str, expected: &str) {
    let error = call(&[], returns, body).expect_err(body);
    assert!(error.contains(expected), "{body}\n{error}\nexpected: {expected}");
}

/// The function that returns its argument.
#[track_caller]
fn returned(of: &str, literals: &[&str]) {
    for literal in literals {
        check(&[("x", of, literal)], of, "return x", literal);
    }
}

#[test]
fn every_type_comes_back_as_it_went() {
    returned("ascii", &["'abc'", "''", "null"]);
    returned("text", &["'häh'", "''"]);
    returned("blob", &["0x", "0x00ff"]);
    returned("boolean", &["true", "false", "null"]);
    returned("tinyint", &["-128", "127"]);
    returned("smallint", &["-32768"]);
    returned("int", &["2147483647", "null"]);
    returned("bigint", &["-9223372036854775808"]);
    returned("float", &["1.5", "NaN", "-Infinity"]);
    returned("double", &["0.1"]);
    returned("varint", &["123456789012345678901234567890", "-1", "0"]);
    returned("decimal", &["1.50", "-12345678901234567890.123"]);
    returned("date", &["'2024-02-29'", "'1969-12-31'"]);
    returned("time", &["'13:30:54.234000000'"]);
    returned("timestamp", &["'2024-01-31T13:30:00.123Z'"]);
    returned("duration", &["1mo2d3h", "-5m"]);
    returned("uuid", &["123e4567-e89b-42d3-a456-426614174000"]);
    returned("timeuuid", &["50554d6e-29bb-11e5-b345-feff819cdc9f"]);
    returned("inet", &["'192.0.2.1'", "'2001:db8::1'"]);
    returned("list<int>", &["[3, 1, 2]", "[]"]);
    returned("set<text>", &["{'a', 'b'}"]);
    returned("map<int, text>", &["{1: 'a', 2: 'b'}"]);
    returned("tuple<int, text, int>", &["(1, 'a', 2)", "(1, null, 2)"]);
    returned("vector<float, 2>", &["[1.0, 2.5]"]);
    returned("pair", &["{a: 1, b: 'x'}", "{a: null, b: 'x'}"]);
    returned("map<text, frozen<list<frozen<pair>>>>", &["{'k': [{a: 1, b: 'x'}]}"]);
    returned("set<frozen<tuple<int, int>>>", &["{(1, 2), (3, 4)}"]);
}

#[test]
fn values_are_what_the_documentation_says() {
    check(&[("d", "date", "'1970-01-02'")], "bigint", "return d", "2147483649");
    check(&[("t", "time", "'00:00:01'")], "bigint", "return t", "1000000000");
    check(&[("t", "timestamp", "'1970-01-01 00:00:01Z'")], "bigint", "return t", "1000");
    check(&[("d", "duration", "1mo2d3ns")], "text", "return d.months..d.days..d.nanoseconds", "'123'");
    check(&[("s", "set<text>", "{'a', 'b'}")], "boolean", "return s.a and s.b and not s.c", "true");
    check(&[("m", "map<int, text>", "{7: 'x'}")], "text", "return m[7]", "'x'");
    check(&[("t", "tuple<int, text>", "(1, 'x')")], "text", "return t[1]..t[2]", "'1x'");
    check(&[("u", "pair", "{a: 1, b: 'x'}")], "text", "return u.a..u.b", "'1x'");
    check(&[("u", "uuid", "123e4567-e89b-42d3-a456-426614174000")], "int", "return #u", "36");
    check(&[("x", "int", "null")], "text", "return type(x)", "'nil'");
    // Names that are not names in Lua.
    check(&[("end", "int", "7"), ("A b", "int", "8")], "int", "local a, b = ... return a + b", "15");
}

#[test]
fn results_are_converted_as_lua_converts() {
    for value in ["42", "42.0", "'42'", "'0x2A'", "v", "d"] {
        let arguments = [("v", "varint", "42"), ("d", "decimal", "42.00")];
        for returns in ["tinyint", "int", "bigint", "varint"] {
            check(&arguments, returns, &format!("return {value}"), "42");
        }
        check(&arguments, "double", &format!("return {value}"), "42.0");
    }
    check(&[], "tinyint", "return 257", "1");
    check(&[("v", "varint", "18446744073709551617")], "bigint", "return v", "1");
    check(&[], "text", "return 42", "'42'");
    check(&[], "decimal", "return 0.1", "0.1");
    check(&[], "decimal", "return '1.20'", "1.20");
    check(&[], "date", "return '2024-02-29'", "'2024-02-29'");
    check(&[], "date", "return {year = 2024, month = 2, day = 29}", "'2024-02-29'");
    check(&[], "date", "return {year = 2023, month = 14, day = 30}", "'2024-03-01'");
    check(&[], "date", "return {year = 1969, month = 12, day = 31}", "'1969-12-31'");
    check(&[], "timestamp", "return {year = 2000, month = 1, day = 1}", "'2000-01-01T12:00:00.000Z'");
    check(&[], "duration", "return '1h30m'", "1h30m");
    check(&[], "duration", "return {days = 2}", "2d");
    check(&[], "set<int>", "return {[3] = true, [1] = true}", "{1, 3}");
    fails("int", "return 1.5", "not an integer");
    fails("int", "return {}", "a table was returned where a value of type int is expected");
    fails("int", "return 'x'", "not an integer");
    fails("ascii", "return 'ä'", "");
    fails("text", "return '\\xff'", "UTF-8");
    fails("boolean", "return 1", "boolean");
    fails("list<int>", "return {1, nil, 3}", "no sequence");
    fails("list<int>", "return {a = 1}", "has the key 'a'");
    fails("pair", "return {c = 1}", "has the key 'c'");
    fails("tuple<int, int>", "return {1, 2, 3}", "has the key 3");
    fails("vector<float, 2>", "return {1}", "1 elements");
    fails("uuid", "return 'x'", "");
    fails("date", "return {year = 1e300, month = 1, day = 1}", "32 bits");
    fails("decimal", "return 0/0", "");
}

#[test]
fn big_numbers_have_operators() {
    let two = [("a", "varint", "100000000000000000000"), ("b", "decimal", "1.5")];
    for (body, expected) in [
        ("return a + 1", "100000000000000000001"),
        ("return 1 - a", "-99999999999999999999"),
        ("return a * a", "10000000000000000000000000000000000000000"),
        ("return -a // 3", "-33333333333333333334"),
        ("return -a % 3", "2"),
    ] {
        check(&two, "varint", body, expected);
    }
    check(&two, "decimal", "return b + b", "3.0");
    check(&two, "decimal", "return b * b", "2.25");
    check(&two, "decimal", "return a + b", "100000000000000000001.5");
    check(&two, "double", "return b / 2", "0.75");
    check(&two, "boolean", "return a > 5 and b < a and b == b + 0 and a <= a", "true");
    check(&two, "text", "return a .. '/' .. b", "'100000000000000000000/1.5'");
    check(&two, "text", "return tostring(b)", "'1.5'");
    let squares = "local x = a for i = 1, 100 do x = x * x end return x";
    assert!(call(&two, "varint", squares).unwrap_err().contains("more than 1024 bytes"));
    assert!(call(&two, "varint", "return a // (a - a)").unwrap_err().contains("divide by zero"));
    let far = [("x", "decimal", "1e2147483647"), ("y", "decimal", "1e-2147483647")];
    assert!(call(&far, "decimal", "return x + y").unwrap_err().contains("more than"));
}

#[test]
fn patterns_are_those_of_lua() {
    for (expression, expected) in [
        ("('hello world'):find('o w')", "5"),
        ("select(2, ('hello'):find('l+'))", "4"),
        ("('a.b'):find('.', 1, true)", "2"),
        ("tostring(('abc'):find('d'))", "nil"),
        ("('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "key"),
        ("select(2, ('key = value'):match('^(%w+)%s*=%s*(%w+)$'))", "value"),
        ("('  x  '):match('^%s*(.-)%s*$')", "x"),
        ("('f(a(b)c)d'):match('%b()')", "(a(b)c)"),
        ("('THE (quick) fox'):find('%((%a+)%)')", "5"),
        ("('hello'):gsub('l', 'L')", "heLLo"),
        ("(('hello'):gsub('', '-'))", "-h-e-l-l-o-"),
        ("('abc'):gsub('%w', '%0%0')", "aabbcc"),
        ("('abc'):gsub('(a)(b)', '%2%1')", "bac"),
        ("('$name'):gsub('%$(%w+)', {name = 'x'})", "x"),
        ("('abc'):gsub('.', function(c) return c == 'b' and 'B' end)", "aBc"),
        ("('abc'):gsub('.', 'x', 2)", "xxc"),
        ("select(2, ('abab'):gsub('a', 'x'))", "2"),
        ("('hello'):gsub('^h', 'H')", "Hello"),
        ("('\"x\" y'):match('([\"\\'])(.-)%1')", "\""),
        ("('THE'):gsub('%f[%a]%a+', 'x')", "x"),
        ("('[a]'):match('[]]')", "]"),
        ("('a-b'):match('[a%-]+')", "a-"),
        ("('x1y2'):match('[^%a]')", "1"),
        ("('abc'):match('()b()')", "2"),
        (
            "(function() local t = {} for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do t[#t+1] = k..v end \
         return table.concat(t, ',') end)()",
            "a1,b2",
        ),
        ("(function() local n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end return n end)()", "4"),
    ] {
        evaluates(expression, expected);
    }
    fails("text", "return ('x'):find('[')", "missing ']'");
    fails("text", "return ('x'):find('%')", "ends with '%'");
    fails("text", "return ('x'):find('(x')", "unfinished capture");
    fails("text", "return ('x'):gsub('x', '%2')", "invalid capture index");
    fails("text", "return ('x'):rep(1000):find(('x?'):rep(1000))", "too complex");
}

#[test]
fn tables_are_those_of_lua() {
    for (expression, expected) in [
        (
            "(function() local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return table.concat(t, ',') end)()",
            "0,1,2,3",
        ),
        (
            "(function() local t = {1, 2, 3} table.remove(t, 1) return table.remove(t) .. table.concat(t) end)()",
            "32",
        ),
        ("table.concat(table.move({1, 2, 3}, 1, 3, 2), ',')", "1,1,2,3"),
        ("(function() local t = {3, 1, 2, 5, 4} table.sort(t) return table.concat(t) end)()", "12345"),
        (
            "(function() local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t) end)()",
            "321",
        ),
        ("select('#', table.unpack({1, 2, 3}))", "3"),
        ("('ab'):rep(3, '-')", "ab-ab-ab"),
        ("tostring(pcall(error, 'x'))", "false"),
        ("math.type(3) .. math.floor(2.5) .. math.max(1, 2)", "integer22"),
        ("utf8.char(228) .. utf8.len('ä')", "ä1"),
    ] {
        evaluates(expression, expected);
    }
}

#[test]
fn nothing_outside_is_in_reach() {
    for name in [
        "os",
        "io",
        "debug",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "require",
        "package",
        "coroutine",
        "collectgarbage",
        "print",
        "rawset",
        "xpcall",
        "_G",
        "string.dump",
        "math.random",
        "math.randomseed",
    ] {
        check(&[], "text", &format!("return type({name})"), "'nil'");
    }
    fails("int", "string.len = nil", "cannot be changed");
    fails("int", "getmetatable('').__index = {}", "");
    fails("int", "setmetatable(string, {})", "protected metatable");
    fails("int", "setmetatable({}, {__gc = function() end})", "__gc");
    fails("int", "setmetatable({}, {__close = function() end})", "__close");
    evaluates(
        "(function() local c = {} c.__index = c function c:get() return self.v end local o = setmetatable({v = 7}, c) \
               return o:get() .. tostring(getmetatable(o) == c) end)()",
        "7true",
    );
    fails("int", "error('mine')", "mine");
    fails("int", "local x = nil; return x.y", "f:1:");
    let error = call(&[], "int", "return return").unwrap_err();
    assert!(error.starts_with("f:1:") && !error.contains("traceback"), "{error}");
    assert!(call(&[], "int", "\x1bLua").is_err(), "no bytecode");
    // Globals are of one call.
    let program = compile(&[], "int", "n = (n or 0) + 1 return n").unwrap();
    for _ in 0..3 {
        assert_eq!(program.call(&[]), Ok(Some(1i32.to_be_bytes().to_vec())));
    }
}

#[test]
fn endless_bodies_end() {
    for body in [
        "while true do end",
        "repeat until false",
        "local function f() return f() end return f()",
        "::a:: goto a",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(error) end",
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) while true do pcall(function() return t[1] end) end",
        "return ('a'):rep(30):find(('a*'):rep(30) .. 'b')",
        "return ('a'):rep(100000):find('.-.-.-b')",
        "table.insert(setmetatable({}, {__len = function() return 1 << 60 end}), 1, 1)",
        "table.remove(setmetatable({}, {__len = function() return 1 << 60 end}), 1)",
        "table.move({}, 1, 1 << 60, 2)",
        "local s = ('x'):rep(400000) local t = {} for i = 1, 20000 do t[i] = s end table.sort(t) return #t",
        "for _ in ('x'):rep(1000000):gmatch('y*') do end while true do end",
        "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
        "local mt = {} local x = setmetatable({}, mt) mt.__close = function() while true do end end for _ in next, {1}, nil, x do while true do end end",
        "while true do string.format('%99.99f', 1e300) end",
    ] {
        fails("int", body, "");
    }
    evaluates("#(''):rep(1 << 60)", "0");
    fails("int", "while true do end", "the function took more than 5000000 instructions");
}

#[test]
fn a_clock_ends_a_call_too() {
    let time_us = Arc::new(AtomicU64::new(0));
    let clock = {
        let time_us = time_us.clone();
        Arc::new(move || time_us.fetch_add(1000, Ordering::Relaxed)) as crate::Clock
    };
    let engine = LuaEngine::new(Limits { clock: Some(clock), time_us: 10_000, ..Limits::default() });
    let function = |body| UserFunction::new("ks", "f", CqlType::Int, "lua", body);
    let slow = engine.compile(&function("local n = 0 while n < 1000000 do n = n + 1 end return n")).unwrap();
    assert_eq!(slow.call(&[]), Err("the function took more than 10 ms".to_string()));
    let fast = engine.compile(&function("return 7")).unwrap();
    assert_eq!(fast.call(&[]), Ok(Some(7i32.to_be_bytes().to_vec())));
}

#[test]
fn memory_is_limited() {
    for body in [
        "return #('x'):rep(1 << 30)",
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "local function f(n) return 1 + f(n + 1) end return f(1)",
        "return #table.concat({('x'):rep(600000), ('y'):rep(600000)})",
    ] {
        fails("int", body, "");
    }
    fails("int", "return #('x'):rep(1 << 30)", "not enough memory");
    // A small table can be a large value.
    let nested = "local t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10} \
                  for i = 1, 7 do t = {t, t, t, t, t, t, t, t, t, t} end return t";
    let deep = "list<frozen<list<frozen<list<frozen<list<frozen<list<frozen<list<frozen<list<frozen<list<int>>>>>>>>>>>>>>>";
    fails(deep, nested, "too large");
    // The next call of a function that has failed is as the first.
    let program = compile(&[("n", "int")], "int", "return #('x'):rep(n)").unwrap();
    let call = |n: i32| program.call(&[Some(&n.to_be_bytes()[..])]);
    for _ in 0..3 {
        assert!(call(1 << 29).is_err());
        assert_eq!(call(100_000), Ok(Some(100_000i32.to_be_bytes().to_vec())));
    }
}

#[test]
fn threads_share_a_function() {
    let program =
        compile(&[("n", "int")], "int", "local s = 0 for i = 1, n do s = s + i end return s").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..200i32 {
                    let sum = n * (n + 1) / 2;
                    assert_eq!(
                        program.call(&[Some(&n.to_be_bytes()[..])]),
                        Ok(Some(sum.to_be_bytes().to_vec()))
                    );
                }
            });
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any text is a program or an error, and any program returns a value of the type or an error.
    #[test]
    fn any_body_is_answered(body in "[a-z0-9 (){}=+#.,'\"%\\[\\]-]{0,60}", returns in 0usize..4) {
        let returns = ["int", "text", "list<int>", "map<text, int>"][returns];
        if let Ok(program) = compile(&[], returns, &body)
            && let Ok(Some(bytes)) = program.call(&[])
        {
            ty(returns).validate(&bytes).unwrap();
        }
    }

    /// Patterns do not panic, whatever the subject is.
    #[test]
    fn any_pattern_is_answered(pattern in "[abc%.()\\[\\]^$*+?fb0-9-]{0,12}", subject in "[abc()\\[\\]]{0,20}") {
        let program = compile(&[("s", "text"), ("p", "text")], "text",
            "local r = {} for a in s:gmatch(p) do r[#r + 1] = tostring(a) end s:find(p) return (s:gsub(p, '<%0>'))").unwrap();
        let _ = program.call(&[Some(subject.as_bytes()), Some(pattern.as_bytes())]);
    }
}
