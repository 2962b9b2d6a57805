package etcd

import (
	"context"
	"fmt"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/etcd"
	"fettle.dev/fettle/internal/prometheus"
	"fettle.dev/fettle/internal/stats"
	"fettle.dev/fettle/internal/ui"
)

// FindMember returns the member with a name, or the only one if name is empty.
func FindMember(ctx context.Context, h *host.Host, name string) (*etcd.Member, error) {
	all, err := etcd.Members(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return product.Choose("etcd", "etcd not found on this machine (neither etcd.service nor a static pod)", "--member", all, func(member *etcd.Member) string { return member.Name }, name)
}

// ReadPage reads a member's metrics.
func ReadPage(ctx context.Context, member *etcd.Member) (Page, error) {
	p, err := member.Metrics(ctx)
	if err != nil {
		return Page{}, fmt.Errorf("the metrics of etcd cannot be read: %w", err)
	}
	return pageOf(p), nil
}

func pageOf(p prometheus.Metrics) Page {
	size := p.Values["etcd_mvcc_db_total_size_in_bytes"]
	if size == 0 {
		size = p.Values["etcd_debugging_mvcc_db_total_size_in_bytes"] // before 3.4
	}
	return Page{
		Fsync: stats.Histogram(p.Histograms["etcd_disk_wal_fsync_duration_seconds"][""]), Commit: stats.Histogram(p.Histograms["etcd_disk_backend_commit_duration_seconds"][""]),
		FsyncSumS: p.Values["etcd_disk_wal_fsync_duration_seconds_sum"], CommitSumS: p.Values["etcd_disk_backend_commit_duration_seconds_sum"],
		Leader: p.Values["etcd_server_has_leader"] == 1, LeaderChanges: p.Values["etcd_server_leader_changes_seen_total"],
		SizeBytes: size, QuotaBytes: p.Values["etcd_server_quota_backend_bytes"], Version: p.Labels["etcd_server_version"]["server_version"],
	}
}

// Unwritable returns the error for a database in a state that forbids writes.
func Unwritable(err error) error {
	return ui.Hinted(ui.Refused, err, "to find the cause: etcdctl endpoint status --cluster -w table; to measure without writing, leave out --write-prefix")
}
