// Package profiles embeds fettle's own profiles. They are in TuneD's language and use
// published values. The comment above each value has its source, and README.md lists the
// sources. An installed TuneD profile of the same name has precedence.
package profiles

import "embed"

// FS contains a directory with tuned.conf for each profile, and recommend.conf. The latter is
// used unless TuneD has installed its own.
//
//go:embed */tuned.conf recommend.conf
var FS embed.FS
