package satellite

import (
	"slices"

	"fettle.dev/fettle/internal/fact"
)

// filesystemSet is the set of file systems with growing directories of Satellite, by mount point.
const filesystemSet = "satellite.filesystem"

// growingDirs are the directories with a growth in the installation guide: the rows of table
// satellite-disk.
var growingDirs = []string{"/var/lib/pulp", "/var/lib/pgsql", "/var/log", "/usr", "/opt/puppetlabs"}

// filesystems returns the mount points of the existing directories.
func (s *satellite) filesystems() (points []string, unknown string) {
	for _, dir := range growingDirs {
		if _, err := s.host.Files.Stat(dir); err != nil {
			continue
		}
		point, why := s.mounted(dir)
		if why != "" {
			return nil, why
		}
		if !slices.Contains(points, point) {
			points = append(points, point)
		}
	}
	return points, ""
}

// growing answers with the growing directories on a file system.
func (s *satellite) growing(point string) fact.Answer {
	all := []string{}
	for _, dir := range growingDirs {
		if _, err := s.host.Files.Stat(dir); err != nil {
			continue
		}
		at, why := s.mounted(dir)
		if why != "" {
			return fact.Answer{Unknown: why}
		}
		if at == point {
			all = append(all, dir)
		}
	}
	return fact.Answer{Value: all, At: s.subject.Answer("mount." + point + ".type").At}
}

// qpiddBeside answers with the growing directories on qpidd's file system, if qpidd runs.
func (s *satellite) qpiddBeside() fact.Answer {
	if a := s.qpiddSize(); a.Value == nil {
		return fact.Answer{Unknown: a.Unknown}
	}
	point, why := s.mounted("/var/lib/qpidd")
	if why != "" {
		return fact.Answer{Unknown: why}
	}
	return s.growing(point)
}
