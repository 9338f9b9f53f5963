//! Binds subscripts of arrays and fields of rows.

use sqlparser::ast::{self, Expr};

use super::{Binder, Scope, Typed, spelling};
use crate::error::CatalogueError;
use crate::plan::Node;
use crate::types;

impl Binder<'_> {
    /// Binds subscripts and fields.
    pub(super) fn access(
        &mut self,
        root: &Expr,
        chain: &[ast::AccessExpr],
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        // `a.b[1]` has the parts of the name before the subscript in the chain, too.
        let mut prefix: Vec<ast::Ident> = match root {
            Expr::Identifier(ident) => vec![ident.clone()],
            _ => Vec::new(),
        };
        let mut rest = chain;
        while let ([ast::AccessExpr::Dot(Expr::Identifier(part)), after @ ..], false) =
            (rest, prefix.is_empty())
        {
            prefix.push(part.clone());
            rest = after;
        }
        let mut value = match prefix.len() {
            0 => self.expression(root, scope)?,
            1 => self.expression(&Expr::Identifier(prefix.remove(0)), scope)?,
            _ => self.expression(&Expr::CompoundIdentifier(prefix), scope)?,
        };
        for step in rest {
            value = self.step(value, step, scope)?;
        }
        Ok(value)
    }

    fn step(
        &mut self,
        value: Typed,
        step: &ast::AccessExpr,
        scope: &Scope<'_>,
    ) -> Result<Typed, CatalogueError> {
        match step {
            ast::AccessExpr::Dot(Expr::Identifier(field)) => {
                let name = spelling::name(field);
                let found = value.fields.iter().position(|(known, _)| *known == name);
                let Some(position) = found else {
                    let text = format!("could not identify column \"{name}\" in record data type");
                    return Err(CatalogueError::new("42703", text));
                };
                let type_oid = value.fields[position].1;
                Ok(Typed::new(
                    Node::Field(Box::new(value.node), position),
                    type_oid,
                ))
            }
            ast::AccessExpr::Subscript(subscript) => {
                let Some(element) = types::element(value.type_oid) else {
                    let text = format!(
                        "cannot subscript type {} because it does not support subscripting",
                        types::sql_name(value.type_oid)
                    );
                    return Err(CatalogueError::new("42804", text));
                };
                let array = Box::new(value.node);
                match subscript {
                    ast::Subscript::Index { index } => {
                        let index = self.expression(index, scope)?;
                        let index = Box::new(self.coerce(index, types::INT4)?);
                        Ok(Typed::new(Node::Subscript(array, index), element))
                    }
                    ast::Subscript::Slice {
                        lower_bound,
                        upper_bound,
                        stride: None,
                    } => {
                        let mut bound = |it: &Option<Expr>| match it {
                            None => Ok(None),
                            Some(it) => {
                                let it = self.expression(it, scope)?;
                                self.coerce(it, types::INT4).map(|it| Some(Box::new(it)))
                            }
                        };
                        let (lower, upper) = (bound(lower_bound)?, bound(upper_bound)?);
                        let type_oid = types::array_of(element);
                        Ok(Typed::new(Node::Slice(array, lower, upper), type_oid))
                    }
                    ast::Subscript::Slice { .. } => {
                        Err(CatalogueError::unsupported("a slice with a stride"))
                    }
                }
            }
            ast::AccessExpr::Dot(other) => {
                Err(CatalogueError::unsupported(format!("the field {other}")))
            }
        }
    }
}
