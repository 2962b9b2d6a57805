package cluster

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Getter is Server.Get or Server.GetMetadata.
type Getter func(ctx context.Context, path string, into any) error

// list is one answer to a list request.
type list[T any] struct {
	Metadata struct {
		ResourceVersion, Continue string
		RemainingItemCount        int
	}
	Items []T
}

// Pages calls see for each object of a list. It requests size objects at a time, and keeps only one
// answer in memory. path may have a query. An error of see ends the list and is returned. version
// is the list's resource version.
func Pages[T any](ctx context.Context, get Getter, path string, size int, see func(*T) error) (version string, err error) {
	path, query, _ := strings.Cut(path, "?")
	if query != "" {
		query += "&"
	}
	query += "limit=" + strconv.Itoa(size)
	for next := ""; ; {
		from := ""
		if next != "" {
			from = "&continue=" + url.QueryEscape(next)
		}
		var l list[T]
		if err := get(ctx, path+"?"+query+from, &l); err != nil {
			return "", err
		}
		for i := range l.Items {
			if err := see(&l.Items[i]); err != nil {
				return "", err
			}
		}
		switch l.Metadata.Continue {
		case "":
			return l.Metadata.ResourceVersion, nil
		case next:
			return "", fmt.Errorf("%s: the server returned the same page of the list twice", path)
		}
		next = l.Metadata.Continue
	}
}

// Count returns the number of objects in a list. It reads only the first object, and the server's
// count of the remaining ones.
func Count(ctx context.Context, get Getter, path string) (int, error) {
	var l list[struct{}]
	err := get(ctx, path+"?limit=1", &l)
	return len(l.Items) + l.Metadata.RemainingItemCount, err
}
