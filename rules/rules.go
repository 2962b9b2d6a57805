// Package rules embeds the rule catalog: rules, tables and evidence as YAML,
// each with its source. Package guide/rule loads it.
package rules

import "embed"

// FS contains the catalog's files.
//
//go:embed *.yaml
var FS embed.FS
