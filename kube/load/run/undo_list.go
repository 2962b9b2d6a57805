package run

import (
	"context"
	"net/url"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/load/plan"
)

// item is what of an object says whose it is.
type item struct {
	cluster.Metadata
	OwnerReferences []struct{ APIVersion, Kind, UID string }
	// secrets are those that an account lists as its own.
	secrets []string
}

// ofRun is the query of a list of the objects with a run's label.
func ofRun(run string) string {
	return "labelSelector=" + url.QueryEscape(plan.RunLabel+"="+run)
}

// pages calls see for each object of a list, and keeps only a page of them in memory. selector
// is the part of the query that selects objects; "" selects all.
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
			query += "&" + selector
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
