package host

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// endMark is the last heading of an archive: one without it has been cut off on
// its way here. Archives with archiveHeadingV1 have none.
const endMark = "-- end --"

var errNothingLeft = errors.New(`the archive is cut off before its first entry: copy it again`)

// checkEndMark looks for the end mark. Where it is missing, the last entry goes: its
// content may be cut off inside a number.
func (p *archiveParser) checkEndMark() error {
	at := bytes.LastIndex(p.rest, []byte("\n-- ")) + 1
	if at == 0 && !bytes.HasPrefix(p.rest, []byte("-- ")) {
		return errNothingLeft
	}
	if string(bytes.TrimSpace(p.rest[at:])) == endMark {
		return nil
	}
	p.cut, p.rest = p.rest[at:], p.rest[:at]
	return nil
}

// end takes the end mark's words and content.
func (p *archiveParser) end(words []string, content []byte) error {
	if len(words) > 0 || len(bytes.TrimSpace(content)) > 0 || len(p.rest) > 0 {
		return fmt.Errorf("%s is the last line of an archive, and something follows: move it to the end", endMark)
	}
	return nil
}

// markIncomplete makes unknown what a cut-off archive has said without what has followed:
// that a directory's listing is complete, and that a command has written nothing
// to its standard error.
func (p *archiveParser) markIncomplete(name string) {
	for _, e := range p.entries {
		e.listed = false
	}
	const stderr = "-- stderr"
	if p.ran && (bytes.HasPrefix(p.cut, []byte(stderr)) || strings.HasPrefix(stderr, string(p.cut))) {
		delete(p.commands, p.last)
	}
	p.incomplete = fmt.Sprintf("%s is cut off: %s is not its last line; its entry of line %d, what followed, and which listings are complete, are unknown: copy the file again", name, endMark, p.next)
}
