// survey reads the data for an audit from a running cluster's API server. It changes nothing and
// reads no secrets. For objects that it only counts, it requests metadata.

package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
)

// Survey reads a cluster for an audit.
type Survey struct {
	Server *cluster.Server
	// Etcd are the members to query. If there are none, Unasked says why.
	Etcd    []*etcd.Member
	Unasked string
	// Kubelets limits the time for the configurations of all kubelets together.
	Kubelets time.Duration
	// Tell receives a description of each part before it is read; it may be nil.
	Tell func(what string)

	cluster *Cluster
	pods    pods
	giveUp  context.CancelCauseFunc // cancels running requests if the server stops responding
}

// Read reads the cluster. It records unreadable parts in the result. It returns an error only if
// the server does not answer at all.
func (s *Survey) Read(ctx context.Context) (*Cluster, error) {
	c := &Cluster{Now: time.Now()}
	s.cluster = c
	ctx, s.giveUp = context.WithCancelCause(ctx)
	defer s.giveUp(nil)
	var version struct{ GitVersion string }
	if err := s.Server.Get(ctx, "/version", &version); err != nil {
		return nil, fmt.Errorf("cannot read the version of the API server: %w", err)
	}
	c.Version = strings.TrimPrefix(version.GitVersion, "v")
	if err := s.openShift(ctx); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		what string
		read func(context.Context)
	}{
		{"nodes", s.nodes}, {"pods", s.readPods}, {"objects", s.objects}, {"control plane", s.controlPlane}, {"claims", s.claims}, {"machines", s.machines},
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

// get reads JSON from a path of the API server into a value.
func (s *Survey) get(ctx context.Context, path string, into any) error {
	return s.answered(ctx, path, s.Server.Get(ctx, path, into))
}

// getMetadata is get with only the metadata of objects.
func (s *Survey) getMetadata(ctx context.Context, path string, into any) error {
	return s.answered(ctx, path, s.Server.GetMetadata(ctx, path, into))
}

// answered examines a request's error. After a timeout it requests the server's version; if that
// fails too, it gives up the survey.
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
	return fmt.Errorf("no answer in time from the API server to GET %s", path)
}

// openShift reads the OpenShift version, if the cluster is OpenShift.
func (s *Survey) openShift(ctx context.Context) error {
	var version struct {
		Status struct{ Desired struct{ Version string } }
	}
	err := s.Server.Get(ctx, "/apis/config.openshift.io/v1/clusterversions/version", &version)
	switch {
	case absent(err):
	case cluster.IsStatus(err, http.StatusForbidden):
		s.cluster.Miss(OfObjects, "unknown whether this is OpenShift: %v", err)
	case err != nil:
		return fmt.Errorf("cannot read the version of OpenShift: %w", err)
	default:
		s.cluster.OpenShift = version.Status.Desired.Version
	}
	return nil
}

// absent reports whether an error means that the server lacks the requested resource.
func absent(err error) bool { return cluster.IsStatus(err, http.StatusNotFound) }

// etcd queries the etcd members and records their responses.
func (s *Survey) etcd(ctx context.Context) {
	switch {
	case len(s.Etcd) > 0:
		s.cluster.Members = etcd.Looks(ctx, s.Etcd)
	case s.Unasked != "":
		s.cluster.Miss(OfEtcd, "%s", s.Unasked)
	}
}

// pageSize is the number of objects per list request.
const pageSize = 500

// list calls each for every object of a list, page by page. If metadata is set it requests only
// metadata.
func list[T any](ctx context.Context, s *Survey, path string, metadata bool, each func(*T)) error {
	get := s.get
	if metadata {
		get = s.getMetadata
	}
	_, err := cluster.Pages(ctx, get, path, pageSize, func(o *T) error {
		each(o)
		return nil
	})
	return err
}

// surveyMeta is the part of an object's metadata that the survey reads.
type surveyMeta struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	OwnerReferences      []struct {
		UID        string
		Controller bool
	}
}

// owner returns the UID of the controlling owner, or "".
func (m *surveyMeta) owner() string {
	for _, o := range m.OwnerReferences {
		if o.Controller {
			return o.UID
		}
	}
	return ""
}
