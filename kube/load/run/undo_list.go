package run

import (
	"context"
	"net/url"

	"fettle.dev/fettle/kube/cluster"
)

// item is what of an object says whose it is.
type item struct {
	cluster.Metadata
	OwnerReferences []struct{ APIVersion, Kind, UID string }
	// secrets are those that an account lists as its own.
	secrets []string
}

// list lists the metadata of objects.
func (u *Undo) list(ctx context.Context, path, selector string) ([]item, error) {
	var all []item
	err := pages(ctx, u.Server.GetMetadata, path, selector, func(m item) { all = append(all, m) })
	return all, err
}

// pages hands out objects that get gets, and keeps no more of them than a page. A selector
// is one of labels; "" is all.
func pages(ctx context.Context, get func(ctx context.Context, path string, into any) error, path, selector string, see func(item)) error {
	next := ""
	for {
		var page struct {
			Metadata struct{ Continue string }
			Items    []struct {
				Metadata item
				// These are of accounts, where they were asked for whole.
				Secrets, ImagePullSecrets []struct{ Name string }
			}
		}
		query := "?limit=500"
		if selector != "" {
			query += "&labelSelector=" + url.QueryEscape(selector)
		}
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		if err := get(ctx, path+query, &page); err != nil {
			return err
		}
		for _, i := range page.Items {
			for _, s := range append(i.Secrets, i.ImagePullSecrets...) {
				i.Metadata.secrets = append(i.Metadata.secrets, s.Name)
			}
			see(i.Metadata)
		}
		if next = page.Metadata.Continue; next == "" {
			return nil
		}
	}
}
