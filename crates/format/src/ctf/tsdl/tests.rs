//! TSDL text -> types and layouts; text that makes no sense gives an error with its offset.
use super::super::Layout;
use super::super::types::{Length, Type};
use super::parse;
use crate::ErrorKind;

fn payload(text: &str) -> Type {
    let text = format!("event {{ name = \"e\"; fields := {text}; }};");
    let metadata = parse(&text).unwrap();
    let ty = metadata.streams[0].events[0].payload.clone();
    (*ty.unwrap()).clone()
}

#[test]
fn byte_order_of_a_trace_block_that_comes_later_counts() {
    let text = "typealias integer { size = 16; } := u16; trace { byte_order = be; packet.header := struct { u16 a; }; };";
    let metadata = parse(text).unwrap();
    assert!(metadata.big_endian);
    let Some(Type::Struct { members, .. }) = metadata.packet_header.as_deref() else {
        panic!("a structure");
    };
    assert!(matches!(&*members[0].ty, Type::Int(int) if int.big_endian && int.align == 8));
}

#[test]
fn names_of_several_words_arrays_and_declarators() {
    let ty = payload(
        "struct { typealias integer { size = 64; } := unsigned long; unsigned long a, b[3]; unsigned long n; \
         unsigned long c[n][2]; }",
    );
    let Type::Struct { members, .. } = ty else {
        panic!("a structure");
    };
    let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "n", "c"]);
    let Type::Array { element, length, .. } = &*members[3].ty else {
        panic!("an array");
    };
    assert!(matches!(length, Length::Field(l) if l.path == [Some("n".to_owned())]));
    assert!(matches!(&**element, Type::Array { length: Length::Fixed(2), .. }));
}

#[test]
fn enumerations_count_on_and_have_ranges() {
    let ty = payload(
        "struct { enum : integer { size = 8; } { A, B = 5, C, D = 10 ... 12, \"E f\" } e; }",
    );
    let Type::Struct { members, .. } = ty else {
        panic!("a structure");
    };
    let Type::Int(int) = &*members[0].ty else {
        panic!("a number");
    };
    let mappings = int.mappings.as_ref().unwrap();
    let all: Vec<_> = mappings.iter().map(|m| (m.label.as_str(), m.spans[0])).collect();
    assert_eq!(
        all,
        [("A", (0, 0)), ("B", (5, 5)), ("C", (6, 6)), ("D", (10, 12)), ("E f", (13, 13))]
    );
}

#[test]
fn a_type_that_doubles_itself_is_refused() {
    let mut text = String::from("struct a0 { integer { size = 8; } x; };");
    for n in 1..40 {
        text += &format!("struct a{n} {{ struct a{} x; struct a{} y; }};", n - 1, n - 1);
    }
    assert_eq!(parse(&text).unwrap_err().kind, ErrorKind::Limit);
    let deep = "struct { ".repeat(10_000);
    assert!(parse(&format!("event {{ fields := {deep}")).is_err());
}

#[test]
fn a_length_that_is_not_there_is_an_error_with_the_fields_name() {
    let text = "event { name = \"e\"; fields := struct { integer { size = 8; } b[n]; }; };";
    let error = Layout::new(parse(text).unwrap()).unwrap_err();
    assert!(
        error.to_string().contains("field `b`") && error.to_string().contains("`n`"),
        "{error}"
    );
}

#[test]
fn errors_name_what_stands_there() {
    let error = parse("trace { major = ; };").unwrap_err();
    assert_eq!((error.offset, error.found.as_ref()), (16, "`;`"));
    assert_eq!(parse("env { a = \"b\"").unwrap_err().kind, ErrorKind::Truncated);
    assert!(parse("clock { name = a; freq = 0; };").is_err());
    assert!(parse("typealias integer { size = 65; } := u;").is_err());
    assert!(parse("typealias integer { size = 8; align = 3; } := u;").is_err());
}
