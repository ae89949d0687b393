"""The parts of the topology `ray`: cluster, replay service, fleet of workers, driver."""
