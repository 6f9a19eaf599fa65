"""Words counted on machines that share nothing but the network, while workers, machines and drivers are killed."""
