package logformat

import (
	"bytes"
	"testing"

	"fettle.dev/fettle/internal/testkit/accesslog"
)

// BenchmarkScan splits lines of each generated format.
func BenchmarkScan(b *testing.B) {
	for _, format := range accesslog.Formats {
		b.Run(format.Name, func(b *testing.B) {
			var text bytes.Buffer
			if err := format.Write(&text, 5000, accesslog.Seed); err != nil {
				b.Fatal(err)
			}
			f, err := Detect(text.Bytes()[:HeadSize], nil)
			if err != nil {
				f, err = Parse(`apache:%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i" %D`)
			}
			if err != nil {
				b.Fatal(err)
			}
			var lines [][]byte // within the text, as in a block of a log
			for rest := text.Bytes(); len(rest) > 0; {
				n := bytes.IndexByte(rest, '\n')
				lines, rest = append(lines, rest[:n]), rest[n+1:]
			}
			scan, spans := f.Scanner(), make([]Span, len(f.Fields))
			b.SetBytes(int64(text.Len() / len(lines)))
			for i := 0; b.Loop(); i++ {
				if scan(lines[i%len(lines)], spans) != RequestLine {
					b.Fatalf("%q", lines[i%len(lines)])
				}
			}
		})
	}
}
