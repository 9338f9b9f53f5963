//! The reference page names only relations and functions that exist.

mod shop;

use shop::{answer, shop};

#[test]
fn the_reference_names_what_exists() {
    let catalogue = shop();
    let path = format!(
        "{}/../../docs/reference/catalogue.md",
        env!("CARGO_MANIFEST_DIR")
    );
    let page = std::fs::read_to_string(path).unwrap();
    let (relations, functions) = page.split_once("\n## Functions\n").unwrap();
    let (_, relations) = relations.split_once("These relations have rows:").unwrap();
    let (relations, _) = relations
        .split_once("Differences from PostgreSQL:")
        .unwrap();
    let names = |text: &str| -> Vec<String> {
        text.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    let relations = names(relations);
    assert!(relations.len() > 50, "{relations:?}");
    for name in relations.iter().filter(|it| *it != "information_schema") {
        let schema = match name.starts_with("pg_") {
            true => "pg_catalog",
            false => "information_schema",
        };
        let found = answer(
            &catalogue,
            &format!("SELECT count(*) > 0 FROM {schema}.{name}"),
        );
        assert_eq!(found, "?column?\nt", "{name}");
    }
    let functions = names(functions);
    assert!(functions.len() > 100, "{functions:?}");
    for name in functions {
        let found = answer(&catalogue, &format!("SELECT {name}(1, 2, 3, 4, 5, 6, 7)"));
        // It exists if a call without arguments fails otherwise than one of an unknown function,
        // or if PostgreSQL lists it.
        let listed = format!("SELECT count(*) > 0 FROM pg_proc WHERE proname = '{name}'");
        let grammar = [
            "coalesce",
            "greatest",
            "least",
            "nullif",
            "pg_typeof",
            "trim",
        ];
        let is_listed = answer(&catalogue, &listed) == "?column?\nt";
        assert!(is_listed || grammar.contains(&&*name), "{name}: {found}");
    }
}
