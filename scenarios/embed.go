// Package scenarios embeds the shipped scenarios of fettle load scenario: one YAML file each,
// which names its source. Package requests/load/scenario runs them.
package scenarios

import "embed"

// FS contains the scenarios, and the bodies of requests that they name.
//
//go:embed *.yaml *.json
var FS embed.FS
