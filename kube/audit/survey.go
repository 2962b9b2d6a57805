// survey reads of a running cluster what an audit judges, through its API server.
// It changes nothing, and reads no secret: of objects that are only counted it asks for
// the metadata.

package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
)

// Survey is what is read, and how.
type Survey struct {
	Server *cluster.Server
	// Etcd are the members that are asked. Where there are none, Unasked says why.
	Etcd    []*etcd.Member
	Unasked string
	// Kubelets is how long all kubelets together may take to say what they run with.
	Kubelets time.Duration
	// Tell is called with what is read; it may be nil.
	Tell func(what string)

	cluster *Cluster
	pods    pods
	giveUp  context.CancelCauseFunc // what is under way, because of a server that is silent
}

// Read reads the cluster. What cannot be read of it is noted there; the error is that of a
// server which does not answer at all.
func (s *Survey) Read(ctx context.Context) (*Cluster, error) {
	c := &Cluster{Now: time.Now()}
	s.cluster = c
	ctx, s.giveUp = context.WithCancelCause(ctx)
	defer s.giveUp(nil)
	var version struct{ GitVersion string }
	if err := s.Server.Get(ctx, "/version", &version); err != nil {
		return nil, fmt.Errorf("the API server: %w", err)
	}
	c.Version = strings.TrimPrefix(version.GitVersion, "v")
	if err := s.openShift(ctx); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		what string
		read func(context.Context)
	}{
		{"nodes", s.nodes}, {"pods", s.readPods}, {"objects", s.objects}, {"claims", s.claims}, {"machines", s.machines},
		{"configuration", s.documents}, {"etcd", s.etcd}, {"kubelets", s.kubelets},
	} {
		if s.Tell != nil {
			s.Tell(part.what)
		}
		part.read(ctx)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return c, nil
}

// get gets JSON from the API server into a value.
func (s *Survey) get(ctx context.Context, path string, into any) error {
	return s.answered(ctx, path, s.Server.Get(ctx, path, into))
}

// getMetadata is get of what has metadata only.
func (s *Survey) getMetadata(ctx context.Context, path string, into any) error {
	return s.answered(ctx, path, s.Server.GetMetadata(ctx, path, into))
}

// answered looks at the error of a request. One that took too long may be about what was
// asked for; a server that does not even say its version any more is not asked on.
func (s *Survey) answered(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if silent := s.Server.Get(ctx, "/version", new([]byte)); errors.Is(silent, context.DeadlineExceeded) {
		err = fmt.Errorf("GET %s%s: %w", s.Server.Base(), path, context.DeadlineExceeded)
		s.giveUp(err)
		return err
	}
	path, _, _ = strings.Cut(path, "?")
	return fmt.Errorf("the API server has not answered GET %s in time", path)
}

// openShift asks of which version of OpenShift the cluster is, if it is one.
func (s *Survey) openShift(ctx context.Context) error {
	var version struct {
		Status struct{ Desired struct{ Version string } }
	}
	err := s.Server.Get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &version)
	switch {
	case absent(err):
	case cluster.IsStatus(err, http.StatusForbidden):
		s.cluster.Miss(OfObjects, "whether it is OpenShift is not known: %v", err)
	case err != nil:
		return fmt.Errorf("the version of OpenShift: %w", err)
	default:
		s.cluster.OpenShift = version.Status.Desired.Version
	}
	return nil
}

// absent is true of what a server does not have.
func absent(err error) bool { return cluster.IsStatus(err, http.StatusNotFound) }

// etcd asks its members.
func (s *Survey) etcd(ctx context.Context) {
	switch {
	case len(s.Etcd) > 0:
		s.cluster.Members = etcd.Looks(ctx, s.Etcd)
	case s.Unasked != "":
		s.cluster.Miss(OfEtcd, "%s", s.Unasked)
	}
}

// pageSize is how many objects are asked for at a time.
const pageSize = 500

// page is a part of a list.
type page[T any] struct {
	Metadata struct {
		Continue           string
		RemainingItemCount int
	}
	Items []T
}

// list hands every object of a list to each, a page after the other; of each only the
// metadata where no more is wanted.
func list[T any](ctx context.Context, s *Survey, path string, metadata bool, each func(*T)) error {
	next := ""
	for {
		query := fmt.Sprintf("%s?limit=%d", path, pageSize)
		if next != "" {
			query += "&continue=" + url.QueryEscape(next)
		}
		var p page[T]
		get := s.get
		if metadata {
			get = s.getMetadata
		}
		if err := get(ctx, query, &p); err != nil {
			return err
		}
		for i := range p.Items {
			each(&p.Items[i])
		}
		if p.Metadata.Continue == "" {
			return nil
		}
		if p.Metadata.Continue == next {
			return errors.New(path + ": the server repeats a page of the list")
		}
		next = p.Metadata.Continue
	}
}

// surveyMeta is what is read of the metadata of an object.
type surveyMeta struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	OwnerReferences      []struct {
		UID        string
		Controller bool
	}
}

// owner is the uid of the object that made this one; "" for none.
func (m *surveyMeta) owner() string {
	for _, o := range m.OwnerReferences {
		if o.Controller {
			return o.UID
		}
	}
	return ""
}
