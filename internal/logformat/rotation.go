package logformat

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// CompressedExtensions are those of compressed logs.
var CompressedExtensions = []string{".gz", ".zst", ".bz2", ".xz"}

// How logrotate (start, dateext, dateformat), rotatelogs and logback (%d, %i) name what
// was rotated: by a number or a date, at the end or in front of an extension.
const rotation = `(.+?)(?:\.(\d{1,6})|[-._](\d{4}-?\d\d-?\d\d(?:[-._T]?\d{1,10})?)(?:\.(\d{1,6}))?)`

var (
	// RotatedAtEnd is for what was rotated, by a number or date at the end.
	RotatedAtEnd = text.LazyRegexp(`^` + rotation + `$`)
	// RotatedBefore is for what was rotated in front of its extension.
	RotatedBefore = text.LazyRegexp(`^` + rotation + `(\.[a-z]+)$`)
)

// NamesBeforeRotation are the names that a file may have had before it was compressed and rotated
// away, itself first: access.log-20261120.gz was access.log, and access.log.2.gz too.
func NamesBeforeRotation(file string) []string {
	names := []string{file}
	add := func(name string) {
		if base := path.Base(name); base != "" && base != "." && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if plain := Uncompressed(file); plain != file {
		file = plain
		add(file)
	}
	if m := RotatedAtEnd().FindStringSubmatch(file); m != nil {
		add(m[1])
	}
	if m := RotatedBefore().FindStringSubmatch(file); m != nil { // logrotate's extension
		add(m[1] + m[5])
	}
	return names
}

// Uncompressed is a name without the extension of a compressed file.
func Uncompressed(file string) string {
	for _, ext := range CompressedExtensions {
		if rest, ok := strings.CutSuffix(file, ext); ok {
			return rest
		}
	}
	return file
}
