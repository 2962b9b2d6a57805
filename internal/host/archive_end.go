package host

import (
	"errors"
	"fmt"
	"strings"
)

// endMark is the last heading of a complete archive. Archives with archiveHeadingV1 never have
// it.
const endMark = "-- end --"

var errNothingLeft = errors.New(`the archive is truncated before its first entry; copy it again`)

// checkEndMark looks for the end mark. If it is missing, checkEndMark drops the last entry,
// whose content may be truncated.
func (p *archiveParser) checkEndMark() error {
	at := strings.LastIndex(p.rest, "\n-- ") + 1
	if at == 0 && !strings.HasPrefix(p.rest, "-- ") {
		return errNothingLeft
	}
	if strings.TrimSpace(p.rest[at:]) == endMark {
		return nil
	}
	p.cut, p.rest = p.rest[at:], p.rest[:at]
	return nil
}

// end parses the end mark.
func (p *archiveParser) end(words []string, content string) error {
	if len(words) > 0 || strings.TrimSpace(content) != "" || len(p.rest) > 0 {
		return fmt.Errorf("%s must be the last line of an archive; move it to the end", endMark)
	}
	return nil
}

// markIncomplete marks facts as unknown that the missing part of a truncated archive could
// change: whether a directory listing is complete, and whether a command wrote to standard error.
func (p *archiveParser) markIncomplete(name string) {
	for _, e := range p.entries {
		e.listed = false
	}
	const stderr = "-- stderr"
	if p.ran && (strings.HasPrefix(p.cut, stderr) || strings.HasPrefix(stderr, p.cut)) {
		delete(p.commands, p.last)
	}
	p.incomplete = fmt.Sprintf("%s is truncated: its last line is not %s; the entry of line %d, later ones, and which listings are complete are unknown; copy the file again", name, endMark, p.line(p.offset()))
}
