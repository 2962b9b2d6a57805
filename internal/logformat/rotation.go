package logformat

import (
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// CompressedExtensions are the file name extensions of compressed logs.
var CompressedExtensions = []string{".gz", ".zst", ".bz2", ".xz"}

// rotation matches the names of rotated files by logrotate (start, dateext, dateformat),
// rotatelogs and logback (%d, %i). They have a number or date at the end or before an extension.
const rotation = `(.+?)(?:\.(\d{1,6})|[-._](\d{4}-?\d\d-?\d\d(?:[-._T]?\d{1,10})?)(?:\.(\d{1,6}))?)`

var (
	// RotatedAtEnd matches names with a number or date at the end.
	RotatedAtEnd = text.LazyRegexp(`^` + rotation + `$`)
	// RotatedBefore matches names with a number or date before the extension.
	RotatedBefore = text.LazyRegexp(`^` + rotation + `(\.[a-z]+)$`)
)

// NamesBeforeRotation returns the names that a file may have had before compression and
// rotation, its own name first. Both access.log-20261120.gz and access.log.2.gz give access.log.
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
	if m := RotatedBefore().FindStringSubmatch(file); m != nil { // logrotate's extension option
		add(m[1] + m[5])
	}
	return names
}

// Uncompressed returns a name without a compression extension.
func Uncompressed(file string) string {
	for _, ext := range CompressedExtensions {
		if rest, ok := strings.CutSuffix(file, ext); ok {
			return rest
		}
	}
	return file
}
