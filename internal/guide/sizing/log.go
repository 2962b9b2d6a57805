package sizing

import (
	"errors"
	"strings"
)

// Log says which request logs a wish is sized from. Who sizes reads them, as fettle logs
// does, and hands in what they say.
type Log struct {
	Paths  []string
	Format string // as fettle logs --format has it; "" is found out
	Unit   string // of the duration, where the format says another
}

// Inputs are what can be said of the logs; doc is what they are of.
func (l *Log) Inputs(doc string) []*Input {
	return []*Input{
		Repeated("log", doc+"; a file, or a directory with rotated ones; with --root an absolute path is one of the copy; repeatable", "file", func(name string) error {
			if name == "-" {
				return errors.New("the standard input cannot be read twice: name a file")
			}
			l.Paths = append(l.Paths, name)
			return nil
		}, func() string { return strings.Join(l.Paths, ",") }),
		Text(&l.Format, "format", "the logs' format, as fettle logs --format takes it; found out where it is left out", nil),
		Word(&l.Unit, "unit", "unit of the duration, where the format says another", "ns", "us", "ms", "s"),
	}
}
