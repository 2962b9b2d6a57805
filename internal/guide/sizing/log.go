package sizing

import (
	"errors"
	"strings"
)

// Log names the request logs on which a sizing is based. The caller reads them as fettle logs
// does.
type Log struct {
	Paths  []string
	Format string // as in fettle logs --format; "" to detect it
	Unit   string // of the duration, if it differs from the format's
}

// Inputs returns the inputs of the logs; doc describes the logs.
func (l *Log) Inputs(doc string) []*Input {
	return []*Input{
		Repeated("log", doc+"; a file, or a directory with rotated logs; with --root fettle looks for an absolute path in the copy, then on this machine; repeatable", "file", func(name string) error {
			if name == "-" {
				return errors.New("standard input cannot be read twice; name a log file")
			}
			l.Paths = append(l.Paths, name)
			return nil
		}, func() string { return strings.Join(l.Paths, ",") }),
		Text(&l.Format, "format", "format of the logs, as for fettle logs --format (default detected)", nil),
		Word(&l.Unit, "unit", "unit of the durations in the logs (default from the format)", "ns", "us", "ms", "s"),
	}
}
