class Scheduler:
    def admit(self, queue):
        ready = [job for job in queue if job.ready]
        limit = self.limit
        return ready[:limit]

    def run(self):
        return 1
