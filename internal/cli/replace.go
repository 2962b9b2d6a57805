package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// replace writes a document atomically. It may replace an older one of the same kind, which
// begins with begins. Other files are not overwritten: users easily name the evidence by mistake.
func replace(name string, text, begins []byte, kind string) error {
	if f, err := os.Open(name); err == nil {
		begin := make([]byte, len(begins))
		st, unknown := f.Stat()
		_, _ = io.ReadFull(f, begin) // a shorter file is of another kind
		f.Close()
		switch {
		case unknown != nil:
			return unknown
		case !st.Mode().IsRegular():
			return os.WriteFile(name, text, 0o644)
		case st.Size() > 0 && !bytes.Equal(begin, begins):
			return ui.Hinted(ui.Refused, fmt.Errorf("%s exists and is not a %s", name, kind), "name another file, or move this one: mv "+internaltext.Quote(name)+" "+internaltext.Quote(name+".old"))
		}
	}
	return host.WriteFile(name, text, 0o644)
}
