package postgresql

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
)

// Query runs a read-only statement in the first of this machine's databases with the given name,
// and returns one text. question names the result in a recording.
func Query(ctx context.Context, h *host.Host, question, database, statement string) ([]byte, error) {
	return h.Query(ctx, "postgresql database "+database+": "+question, func(ctx context.Context, live *host.Host) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		all, err := clusters(live)
		if err != nil {
			return nil, err
		}
		err = fmt.Errorf("no PostgreSQL cluster on this machine has the database %s", database)
		for _, c := range all {
			dir := path.Dir(c.Main)
			if files, ferr := readSettings(live, c.Main); ferr == nil && files.dir != "" {
				dir = files.dir
			}
			s, cerr := connect(ctx, live, dir, database)
			switch {
			case errors.Is(cerr, product.ErrStopped):
				err = cerr
				continue
			case cerr != nil && strings.Contains(cerr.Error(), "does not exist"):
				continue
			case cerr != nil:
				return nil, cerr
			}
			defer s.Close()
			text, err := s.one(statement)
			return []byte(text), err
		}
		return nil, err
	})
}
